package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/source/store/view"
)

// maxForm bounds a form, in bytes: that of an edit with its payload.
const maxForm = 32 << 20

// A step is what a form asks for: an operation of the API with its body.
type step struct {
	path string
	body map[string]any
	// selects: the body is a selection, of which a dry run is shown before it is carried out.
	selects bool
}

// stepOf reads a form. Forms have the names of the API's fields.
func stepOf(verb string, f url.Values) (*step, error) {
	body := map[string]any{}
	for _, name := range []string{"sink", "table", "type", "topic", "tenant", "q", "reason", "why"} {
		if f.Get(name) != "" {
			body[name] = f.Get(name)
		}
	}
	for _, name := range []string{"ids", "groups", "states"} {
		if len(f[name]) > 0 {
			body[name] = f[name]
		}
	}
	switch verb {
	case "replay", "drop":
		for _, name := range []string{"all", "allow_reorder", "unrouted"} {
			if value := f.Get(name); value == "yes" || value == "true" {
				body[name] = true
			}
		}
		return &step{"/deliveries:" + verb, body, true}, nil
	case "edit":
		return editOf(f), nil
	case "hold-groups", "resume-groups", "skip-groups", "replay-groups":
		return &step{"/groups:" + strings.TrimSuffix(verb, "-groups"), body, false}, nil
	case "pause-sink", "resume-sink":
		delete(body, "sink") // it stands in the path
		return &step{"/sinks/" + url.PathEscape(f.Get("sink")) + ":" + strings.TrimSuffix(verb, "-sink"), body, false}, nil
	}
	return nil, fmt.Errorf("there is no verb %q", verb)
}

// editOf reads the form of an edit: what a field held before stands beside it, so that only what was changed is sent.
func editOf(f url.Values) *step {
	body := map[string]any{"id": f.Get("id")}
	for _, name := range []string{"sink", "table", "why", "new_id"} {
		if f.Get(name) != "" {
			body[name] = f.Get(name)
		}
	}
	for _, name := range []string{"payload", "type", "topic", "key"} {
		if now := lines(f.Get(name)); f.Has(name) && now != lines(f.Get("old_"+name)) {
			body[name] = now
		}
	}
	if name := strings.TrimSpace(f.Get("header_name")); name != "" {
		body["headers"] = map[string]string{name: f.Get("header_value")}
	}
	if f.Get("allow_reorder") != "" {
		body["allow_reorder"] = true
	}
	return &step{"/deliveries:edit", body, false}
}

// lines undoes what browsers do to line breaks in a form.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// A change is what an edit does to a field.
type change struct{ Name, Old, New string }

// doForm carries out a form: first it shows what the form would do, and once that is confirmed, it asks for it.
func (v *visit) doForm() {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		v.fail(http.StatusBadRequest, "The form could not be read: "+err.Error())
		return
	}
	verb, f := v.r.PathValue("verb"), v.r.PostForm
	s, err := stepOf(verb, f)
	if err != nil {
		v.fail(http.StatusNotFound, err.Error())
		return
	}
	if f.Get("confirmed") == "" && (s.selects || verb == "edit") {
		v.confirm(verb, s, f)
		return
	}
	var answer struct {
		Request int64 `json:"request"`
	}
	var body any
	if s.body != nil {
		body = s.body
	}
	if err := v.ask(http.MethodPost, s.path, body, &answer); err != nil {
		v.failed(err)
		return
	}
	http.Redirect(v.w, v.r, fmt.Sprintf("/audit/%d", answer.Request), http.StatusSeeOther)
}

// confirm shows what a form would do.
func (v *visit) confirm(verb string, s *step, f url.Values) {
	again := g.Group{hidden("confirmed", "yes")} // the fields of the form, sent again when it is confirmed
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, value := range f[name] {
			if name != "why" {
				again = append(again, h.Input(h.Type("hidden"), h.Name(name), h.Value(value)))
			}
		}
	}
	var content []g.Node
	if s.selects {
		s.body["dry_run"] = true
		var found struct {
			Deliveries []view.Delivery `json:"deliveries"`
			More       bool            `json:"more"`
		}
		if err := v.ask(http.MethodPost, s.path, s.body, &found); err != nil {
			v.failed(err)
			return
		}
		if len(found.Deliveries) == 0 {
			v.fail(http.StatusNotFound, "Nothing matches: what was selected has been delivered or dropped meanwhile.")
			return
		}
		said := count(len(found.Deliveries), "delivery matches:", "deliveries match:")
		if found.More {
			said = fmt.Sprintf("The first %d of those that match:", len(found.Deliveries))
		}
		content = append(content, h.P(g.Text(said)), deliveryTable(found.Deliveries))
	} else {
		for _, c := range s.changes(f) {
			content = append(content, h.H2(g.Text(c.Name)), h.Div(h.Class("diff"),
				h.Div(h.H3(g.Text("Before")), pre(pretty(c.Old))), h.Div(h.H3(g.Text("After")), pre(pretty(c.New)))))
		}
		if len(content) == 0 {
			v.fail(http.StatusUnprocessableEntity, "Nothing is changed. To send the message as it is, replay it.")
			return
		}
	}
	press := map[string]string{"drop": "Drop them for good", "edit": "Change and replay", "replay": "Replay"}[verb]
	content = append(content, h.Form(h.Method("post"), h.Action("/do/"+verb), h.Class("card"), again,
		field("Why, for the audit", "why", "", g.If(verb == "drop", h.Required()), h.AutoFocus()),
		h.Button(h.Class("primary"), g.Text(press)), link(localPath(f.Get("back")), "Cancel")))
	v.show(strings.ToUpper(verb[:1])+verb[1:]+"?", content...)
}

// changes lists what an edit does.
func (s *step) changes(f url.Values) (all []change) {
	for _, name := range []string{"payload", "type", "topic", "key"} {
		if now, ok := s.body[name].(string); ok {
			all = append(all, change{name, lines(f.Get("old_" + name)), now})
		}
	}
	if headers, ok := s.body["headers"].(map[string]string); ok {
		for name, value := range headers {
			all = append(all, change{"header " + name, "", value})
		}
	}
	return all
}
