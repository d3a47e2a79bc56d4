package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/internal/api"
)

// A page is what a template is filled with.
type page struct {
	Title, Pipeline string
	Who             api.Principal
	// Operates: the visitor may press what changes something. Reads: the visitor may see what messages hold.
	Operates, Reads bool
	// Here is the path of the page, and Refresh after how many seconds its script loads it again; 0 = never.
	Here    string
	Refresh int
	Data    any
}

// pageNames are the templates in the folder pages; each fills the layout.
func pageNames() []string {
	return []string{"login", "overview", "deliveries", "message", "confirm", "groups", "sinks", "source", "audit", "request", "failure"}
}

func parsePages() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions()).ParseFS(files, "pages/layout.html", "pages/parts.html"))
	pages := make(map[string]*template.Template)
	for _, name := range pageNames() {
		pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return pages
}

// show writes a page. What a template could not be filled with is a fault of this package, which the log names.
func (s *console) show(w http.ResponseWriter, status int, name string, p page) {
	p.Pipeline = s.Pipeline
	var text bytes.Buffer
	if err := s.pages[name].Execute(&text, p); err != nil {
		s.Logger.Error("the console could not make a page", "page", name, "error", err)
		http.Error(w, "the page could not be made: the relay's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The browser is gone if this fails.
	_, _ = w.Write(text.Bytes())
}

// show writes a page for the visitor.
func (v *visit) show(name, title string, data any) { v.showWith(name, title, 0, data) }

func (v *visit) showWith(name, title string, refresh int, data any) {
	v.console.show(v.w, http.StatusOK, name, v.page(title, refresh, data))
}

func (v *visit) page(title string, refresh int, data any) page {
	return page{Title: title, Who: v.who, Operates: v.who.Role >= api.Operator, Reads: v.who.Role >= api.Auditor, Here: v.r.URL.RequestURI(), Refresh: refresh, Data: data}
}

func (v *visit) fail(status int, detail string) {
	v.console.show(v.w, status, "failure", v.page(http.StatusText(status), 0, detail))
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

func functions() template.FuncMap {
	return template.FuncMap{
		"ago":     func(t time.Time) string { return age(time.Since(t)) + " ago" },
		"in":      func(t time.Time) string { return inTime(time.Until(t)) },
		"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"seconds": func(s float64) string { return age(time.Duration(s * float64(time.Second))) },
		"bytes":   size,
		"sink":    sinkName,
		"path":    url.PathEscape,
		"pretty":  pretty,
		"query":   func(pairs ...string) string { return query(pairs) },
		"dead":    deadLink,
		"json":    indented,
		"large":   func(text *string) bool { return text != nil && len(*text) > mostShown },
		"head":    func(text *string) string { return strings.ToValidUTF8((*text)[:mostShown], "") },
		"edits": func(text *string) bool {
			return text != nil && len(*text) <= mostShown && !strings.Contains(*text, "\r")
		},
		"list": func(items ...string) []string { return items },
	}
}

// mostShown is how much of a payload a page shows, in bytes. A larger one is not edited here.
const mostShown = 256 << 10

// indented writes a value as JSON.
func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

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
func query(pairs []string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	return "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}
