package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/internal/api"
)

// A page is what stands on a page around its content.
type page struct {
	Title string
	Who   api.Principal
	// Refresh is after how many seconds the page's script loads it again; 0 = never.
	Refresh int
}

// write writes a page.
func (s *console) write(w http.ResponseWriter, status int, p page, content ...g.Node) {
	var text bytes.Buffer
	if err := s.layout(p, content).Render(&text); err != nil {
		s.Logger.Error("the console could not make a page", "page", p.Title, "error", err)
		http.Error(w, "the page could not be made: the relay's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The browser is gone if this fails.
	_, _ = w.Write(text.Bytes())
}

func (s *console) layout(p page, content g.Group) g.Node {
	var refresh g.Node
	if p.Refresh > 0 {
		refresh = h.Data("refresh", strconv.Itoa(p.Refresh))
	}
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(p.Title+" · "+s.Pipeline+" · tailbox")),
			h.Link(h.Rel("stylesheet"), h.Href("/static/console.css")),
			h.Link(h.Rel("icon"), h.Href("/static/icon.svg"), h.Type("image/svg+xml")),
			h.Script(h.Src("/static/console.js"), h.Defer()),
		),
		h.Body(refresh,
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
			h.Header(
				h.P(h.Class("brand"), h.A(h.Href("/"), g.Text("tailbox")), g.Text(" "), h.Span(g.Text(s.Pipeline))),
				g.If(p.Who.Name != "", g.Group{
					h.Nav(h.Aria("label", "Pages"), link("/", "Overview"), link("/failures", "Failures"), link("/deliveries", "Deliveries"), link("/groups", "Groups"), link("/sinks", "Sinks"),
						link("/source", "Source"), link("/live", "Live"), link("/audit", "Audit"), g.If(p.Who.Role >= api.Auditor, link("/config", "Configuration"))),
					h.Form(h.Class("who"), h.Method("post"), h.Action("/logout"), h.Span(g.Text(p.Who.Name+", "+p.Who.Role.String())), g.Text(" "), h.Button(g.Text("Log out"))),
				}),
			),
			h.Main(h.ID("main"), h.H1(g.Text(p.Title)), content),
		),
	))
}

// show writes a page for the visitor.
func (v *visit) show(title string, content ...g.Node) { v.showLive(title, 0, content...) }

// showLive writes a page that loads itself again.
func (v *visit) showLive(title string, refresh int, content ...g.Node) {
	v.write(v.w, http.StatusOK, page{title, v.who, refresh}, content...)
}

// operates reports whether the visitor may press what changes something, and reads whether the visitor may see what messages hold.
func (v *visit) operates() bool { return v.who.Role >= api.Operator }
func (v *visit) reads() bool    { return v.who.Role >= api.Auditor }

func (v *visit) fail(status int, detail string) {
	v.write(v.w, status, page{Title: http.StatusText(status), Who: v.who}, problem(detail), h.P(link("/", "Overview")))
}

// failed shows why the API gave no answer.
func (v *visit) failed(err error) {
	if f, ok := errors.AsType[*failure](err); ok {
		v.fail(f.status, f.detail)
		return
	}
	v.Logger.Error("the console could not ask the API", "error", err)
	v.fail(http.StatusInternalServerError, "The API's answer could not be read: the relay's log says why.")
}

func link(to, text string) g.Node { return h.A(h.Href(to), g.Text(text)) }

func problem(text string) g.Node { return h.P(h.Class("problem"), h.Role("alert"), g.Text(text)) }

// state is a word in the colour of what it means.
func state(word string) g.Node { return h.Span(h.Class("state "+word), g.Text(word)) }

// section is a part of a page with a heading.
func section(id, title string, content ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), h.H2(h.ID(id), g.Text(title)), g.Group(content))
}

// table is a table that scrolls by itself on a narrow screen. A column without a heading is left out.
func table(label string, columns []string, rows ...g.Node) g.Node {
	heads := g.Map(columns, func(name string) g.Node { return g.If(name != "", h.Th(h.Scope("col"), g.Text(name))) })
	return h.Div(h.Class("scroll"), h.TabIndex("0"), h.Role("region"), h.Aria("label", label),
		h.Table(g.If(len(columns) > 0, h.THead(h.Tr(heads))), h.TBody(rows...)))
}

func cell(content ...g.Node) g.Node { return h.Td(content...) }
func text(s string) g.Node          { return h.Td(g.Text(s)) }
func number(n int) g.Node           { return text(strconv.Itoa(n)) }

// terms is a list of names with what they mean; those whose text is empty are left out.
func terms(pairs ...any) g.Node {
	var all g.Group
	for i := 0; i+1 < len(pairs); i += 2 {
		content, ok := pairs[i+1].(g.Node)
		if !ok {
			s := fmt.Sprint(pairs[i+1])
			if s == "" {
				continue
			}
			content = g.Text(s)
		}
		all = append(all, h.Dt(g.Text(pairs[i].(string))), h.Dd(content))
	}
	return h.Dl(all)
}

// form is a form with a button, whose fields are hidden. Fields are names and values in turn; empty values are left out.
func form(verb, button, class string, fields ...string) g.Node {
	return h.Form(h.Method("post"), h.Action("/do/"+verb), h.Class("inline"), hidden(fields...), h.Button(g.If(class != "", h.Class(class)), g.Text(button)))
}

func hidden(fields ...string) g.Node {
	var all g.Group
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != "" {
			all = append(all, h.Input(h.Type("hidden"), h.Name(fields[i]), h.Value(fields[i+1])))
		}
	}
	return all
}

// field is a labelled input of a form.
func field(label, name, value string, more ...g.Node) g.Node {
	return h.Label(g.Text(label+" "), h.Input(h.Name(name), g.If(value != "", h.Value(value)), g.Group(more)))
}

// pre is a text with its line breaks.
func pre(s string) g.Node { return h.Pre(h.TabIndex("0"), g.Text(s)) }

// age writes a duration for people.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func seconds(s float64) string { return age(time.Duration(s * float64(time.Second))) }

// ago is a moment in the past, with the time of day for those who point at it.
func ago(t time.Time) g.Node {
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339)), h.Title(clock(t)), g.Text(agoText(time.Since(t))))
}

func agoText(d time.Duration) string {
	if text := age(d); text != "now" {
		return text + " ago"
	}
	return "now"
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func inTime(d time.Duration) string {
	if d <= 0 {
		return "now"
	}
	return "in " + age(d)
}

func size(n *int64) string {
	switch {
	case n == nil:
		return "unknown"
	case *n < 10<<10:
		return fmt.Sprintf("%d B", *n)
	case *n < 10<<20:
		return fmt.Sprintf("%d KiB", *n>>10)
	case *n < 10<<30:
		return fmt.Sprintf("%d MiB", *n>>20)
	}
	return fmt.Sprintf("%d GiB", *n>>30)
}

// sinkName shows the empty name, which stands for messages that could not be routed.
func sinkName(name string) string {
	if name == "" {
		return "no sink"
	}
	return name
}

// pretty indents JSON, and leaves other texts as they are.
func pretty(text string) string {
	var out bytes.Buffer
	if !utf8.ValidString(text) || json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}

// query makes the query of an address, of names and values in turn. Empty values are left out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	return "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
