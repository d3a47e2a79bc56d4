package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/internal/api"
	"github.com/tailbox/tailbox/source/store/report"
	"github.com/tailbox/tailbox/source/store/view"
)

// Answers of the API, as far as the pages show them.
type (
	pipelineAnswer struct {
		Running       bool    `json:"running"`
		Relay         string  `json:"relay"`
		Source        string  `json:"source"`
		Version       string  `json:"version"`
		Uptime        float64 `json:"uptime_seconds"`
		RetainedBytes *int64  `json:"retained_bytes"`
		LagBytes      *int64  `json:"lag_bytes"`
		Waiting       string  `json:"waiting"`
		Status        struct {
			Checkpoint   *report.Checkpoint `json:"checkpoint"`
			Sinks        []report.SinkCount `json:"sinks"`
			OpenRequests int                `json:"open_requests"`
			Held         []struct {
				Sink  string
				Group string
			} `json:"held"`
		} `json:"status"`
	}
	sinksAnswer struct {
		Sinks []report.SinkCount `json:"sinks"`
	}
	deliveriesAnswer struct {
		Deliveries []view.Delivery `json:"deliveries"`
		Next       string          `json:"next"`
	}
	messagesAnswer struct {
		Deliveries []view.Message `json:"deliveries"`
	}
	groupsAnswer struct {
		Groups []view.Group `json:"groups"`
		Next   string       `json:"next"`
	}
	requestsAnswer struct {
		Requests []api.Asked `json:"requests"`
		Next     string      `json:"next"`
	}
	sourceAnswer struct {
		Source   string                              `json:"source"`
		Log      []struct{ Name, Text string }       `json:"log"`
		Findings []struct{ Level, What, Fix string } `json:"findings"`
	}
)

// A need is something that wants a human, with what to do.
type need struct{ What, Fix, Link string }

// needs lists what wants a human, the worst first.
func (p *pipelineAnswer) needs() (all []need) {
	if !p.Running {
		all = append(all, need{What: "No relay holds the pipeline's lock.", Fix: "Look at the log of the process that should run, and start tailbox run."})
	}
	if p.Waiting != "" {
		all = append(all, need{What: "The database sends nothing: " + p.Waiting, Fix: "Look at the page Source.", Link: "/source"})
	}
	for i := range p.Status.Sinks {
		s := &p.Status.Sinks[i]
		switch {
		case s.State == "failing":
			all = append(all, need{What: "Sink " + sinkName(s.Sink) + " fails: it accepts nothing.", Fix: "Repair the destination. tailbox probes it and goes on by itself.", Link: "/sinks"})
		case s.Paused:
			all = append(all, need{What: "Sink " + sinkName(s.Sink) + " is paused by an operator.", Fix: "Resume it when its destination is ready.", Link: "/sinks"})
		}
		if s.Dead > 0 {
			all = append(all, need{What: count(s.Dead, "dead letter", "dead letters") + " at " + sinkName(s.Sink) + ".", Fix: "Find the cause, then replay, edit or drop them.",
				Link: deadLink(s.Sink)})
		}
	}
	for _, held := range p.Status.Held {
		all = append(all, need{What: "Group " + held.Group + " is held by an operator.", Fix: "Resume it when it may go on.", Link: "/groups" + query("group", held.Group)})
	}
	return all
}

// deadLink is the address of the dead letters of a sink.
func deadLink(sink string) string {
	if sink == "" {
		return "/deliveries?unrouted=true"
	}
	return "/deliveries" + query("sink", sink)
}

func (v *visit) overviewPage() {
	var p pipelineAnswer
	var past statsAnswer
	err := v.get("/pipeline", nil, &p)
	if err == nil {
		err = v.get("/stats", nil, &past)
	}
	if err != nil {
		v.failed(err)
		return
	}
	top := h.P(h.Class("well"), g.Text("All is well: nothing needs you."))
	if needs := p.needs(); len(needs) > 0 {
		top = section("needs", "What needs you", h.Ul(h.Class("needs"), g.Map(needs, func(n need) g.Node {
			return h.Li(h.Strong(g.Text(n.What)), g.Text(" "+n.Fix), g.If(n.Link != "", g.Group{g.Text(" "), link(n.Link, "Look")}))
		})))
	}
	saved := ""
	if c := p.Status.Checkpoint; c != nil {
		saved = c.Resume + ", saved " + agoText(time.Duration(c.AgeSeconds*float64(time.Second)))
	}
	v.showLive("Overview", 10, top,
		h.P(h.Class("hint"), g.Text("As of now. "), link("/", "Look again")), v.deadByCause(&p),
		section("hour", "The last hour of this process", charts(past.Points, time.Now())),
		section("relay", "Relay", terms("Lock", p.Relay, "Source", p.Source, "Log behind the checkpoint", size(p.LagBytes), "Log that the server keeps", size(p.RetainedBytes),
			"Checkpoint", saved, "This process", "tailbox "+p.Version+", up "+seconds(p.Uptime))),
		section("sinks", "Sinks", sinkTable(p.Status.Sinks, false)))
}

// picked copies the parameters with these names that a request has.
func (v *visit) picked(names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		for _, value := range v.r.URL.Query()[name] {
			if value != "" {
				q.Add(name, value)
			}
		}
	}
	return q
}

func (v *visit) deliveriesPage() {
	q := v.picked("state", "sink", "group", "id", "table", "type", "topic", "tenant", "q", "class", "reason", "unrouted", "order", "since", "until", "cursor", "limit")
	states := map[string]bool{}
	for _, name := range q["state"] {
		states[name] = true
	}
	if len(states) == 0 {
		states["dead"] = true
	}
	orderOf(q, states)
	var found deliveriesAnswer
	if err := v.get("/deliveries", q, &found); err != nil {
		v.failed(err)
		return
	}
	content := []g.Node{v.filters(q, states)}
	switch {
	case len(found.Deliveries) > 0:
		content = append(content, deliveryTable(found.Deliveries))
	case found.Next != "":
		content = append(content, h.P(g.Text("Nothing on this page.")))
	default:
		content = append(content, h.P(g.Text("Nothing matches.")))
	}
	content = append(content, nextPage("/deliveries", q, found.Next))
	switch {
	case !v.operates() || !states["dead"] || len(found.Deliveries) == 0:
	case q.Has("since") || q.Has("until"):
		content = append(content, h.P(h.Class("hint"), g.Text("To replay or drop all that match, leave out since and until: a request cannot be limited to a time.")))
	default:
		all := v.selection(q)
		content = append(content, section("all", "All dead letters that match", h.P(g.Text("The next page shows what would be done, before it is done.")),
			form("replay", "Replay …", "primary", all...), form("drop", "Drop …", "", all...)))
	}
	v.show("Deliveries", content...)
}

// nextPage is the link to the next page of a list; nil at its end.
func nextPage(path string, q url.Values, cursor string) g.Node {
	if cursor == "" {
		return nil
	}
	next := maps.Clone(q)
	next.Set("cursor", cursor)
	return h.P(link(path+"?"+next.Encode(), "Next page"))
}

// orderOf sets the order of a list: dead letters come the newest first, unless they are those of a group, or another order is asked for.
func orderOf(q url.Values, states map[string]bool) {
	switch {
	case len(states) > 1 || !states["dead"]:
		q.Del("order")
		q.Del("since")
		q.Del("until")
	case q.Has("since") || q.Has("until") || !q.Has("order") && !q.Has("id") && !q.Has("group"):
		q.Set("order", "newest")
	}
}

// selection returns the fields of a form that selects what the filters of a page do.
func (v *visit) selection(q url.Values) []string {
	all := []string{"all", "yes", "back", v.r.URL.RequestURI()}
	for _, name := range []string{"sink", "table", "type", "topic", "tenant", "q", "unrouted"} {
		all = append(all, name, q.Get(name))
	}
	all = append(all, "reason", cmp.Or(q.Get("class"), q.Get("reason"))) // a reason matches classes, too
	for _, group := range q["group"] {
		all = append(all, "groups", group)
	}
	for _, id := range q["id"] {
		all = append(all, "ids", id)
	}
	return all
}

// filters is the form by which deliveries are chosen: its fields stand in the address, so that a link can be sent.
// sinkSelect lets people choose a sink. If the sinks cannot be listed in time, it offers the one that is chosen.
func (v *visit) sinkSelect(chosen string) g.Node {
	var d sinksAnswer
	if v.get("/sinks", nil, &d) != nil {
		d.Sinks = []report.SinkCount{{Sink: chosen}}
	}
	return h.Label(g.Text("Sink "), h.Select(h.Name("sink"), h.Option(h.Value(""), g.Text("all")), g.Map(d.Sinks, func(s report.SinkCount) g.Node {
		return g.If(s.Sink != "", h.Option(g.If(s.Sink == chosen, h.Selected()), g.Text(s.Sink)))
	})))
}

func (v *visit) filters(q url.Values, states map[string]bool) g.Node {
	return h.Form(h.Class("filters"), h.Method("get"), h.Action("/deliveries"),
		h.FieldSet(h.Legend(g.Text("State")), g.Map([]string{"dead", "retrying", "waiting"}, func(name string) g.Node {
			return h.Label(h.Input(h.Type("checkbox"), h.Name("state"), h.Value(name), g.If(states[name], h.Checked())), g.Text(" "+name+" "))
		})),
		v.sinkSelect(q.Get("sink")),
		field("Search", "q", q.Get("q"), h.Placeholder("in id, group and key")), field("Group", "group", q.Get("group")), field("Message id", "id", q.Get("id")), field("Type", "type", q.Get("type"), h.Placeholder("order.*")),
		field("Error class", "class", q.Get("class"), h.Placeholder("permanent")),
		g.If(v.reads(), field("Error", "reason", q.Get("reason"), h.Placeholder("*503*"))),
		g.Map([]string{"topic", "tenant", "table", "unrouted", "since", "until"}, func(name string) g.Node {
			return g.If(q.Has(name), field(strings.ToUpper(name[:1])+name[1:], name, q.Get(name)))
		}),
		h.Button(g.Text("Filter")))
}

type messageData struct {
	ID string
	// Sink and Table are those that the page is limited to; "" for all.
	Sink, Table string
	Deliveries  []view.Message
	// Bare are the deliveries for a visitor who may not see what messages hold.
	Bare []view.Delivery
	// Behind are the deliveries that wait in its groups.
	Behind []view.Delivery
	More   bool
}

func (v *visit) messagePage() {
	id := v.r.PathValue("id")
	if id == "" {
		id = v.r.URL.Query().Get("id")
	}
	d := messageData{ID: id, Sink: v.r.URL.Query().Get("sink"), Table: v.r.URL.Query().Get("table")}
	if v.reads() {
		var found messagesAnswer
		q := v.picked("sink", "table")
		q.Set("id", id)
		if err := v.get("/delivery", q, &found); err != nil {
			v.failed(err)
			return
		}
		d.Deliveries = found.Deliveries
		for i := range found.Deliveries {
			d.Bare = append(d.Bare, found.Deliveries[i].Delivery)
		}
	} else {
		limited := v.picked("sink", "table")
		limited["id"], limited["state"] = []string{id}, []string{"dead", "retrying", "waiting"}
		var found deliveriesAnswer
		if err := v.get("/deliveries", limited, &found); err != nil {
			v.failed(err)
			return
		}
		d.Bare = found.Deliveries
	}
	if len(d.Bare) == 0 {
		v.fail(http.StatusNotFound, "No delivery of this message is dead or waits: it is delivered, was dropped, or never was.")
		return
	}
	for i := range d.Bare {
		one := &d.Bare[i]
		if one.Group == "" || !one.Blocks {
			continue
		}
		var behind deliveriesAnswer
		same := url.Values{"sink": {one.Sink}, "group": {one.Group}, "state": {"waiting", "retrying"}, "limit": {"20"}}
		if one.Sink == "" {
			same.Del("sink")
			same.Set("unrouted", "true")
		}
		if err := v.get("/deliveries", same, &behind); err != nil {
			v.failed(err)
			return
		}
		for _, other := range behind.Deliveries {
			if other.ID != one.ID {
				d.Behind = append(d.Behind, other)
			}
		}
		d.More = d.More || behind.Next != ""
	}
	content := []g.Node{deliveryTable(d.Bare)}
	for i := range d.Deliveries {
		content = append(content, v.atSink(&d.Deliveries[i]))
	}
	if v.operates() && slices.ContainsFunc(d.Bare, func(x view.Delivery) bool { return x.State == "dead" }) {
		of := []string{"ids", d.ID, "sink", d.Sink, "table", d.Table, "back", v.r.URL.RequestURI()}
		content = append(content, section("verbs", "Decide", form("replay", "Replay …", "primary", of...), form("drop", "Drop …", "", of...)))
	}
	if len(d.Behind) > 0 {
		content = append(content, section("behind", "What waits in its group", deliveryTable(d.Behind), g.If(d.More, h.P(g.Text("And more.")))))
	}
	v.show("Message "+id, content...)
}

func (v *visit) groupsPage() {
	var d groupsAnswer
	q := v.picked("sink", "group", "cursor", "limit")
	if err := v.get("/groups", q, &d); err != nil {
		v.failed(err)
		return
	}
	content := []g.Node{h.P(g.Text("No group waits."))}
	if len(d.Groups) > 0 {
		content = []g.Node{v.groupTable(d.Groups), nextPage("/groups", q, d.Next)}
	}
	if v.operates() {
		content = append(content, h.Form(h.Method("post"), h.Action("/do/hold-groups"), h.Class("card"), h.H2(g.Text("Hold a group")),
			field("Group", "groups", "", h.Required()), field("Why, for the audit", "why", ""), h.Button(g.Text("Hold"))))
	}
	v.show("Groups", content...)
}

func (v *visit) sinksPage() {
	var d sinksAnswer
	if err := v.get("/sinks", nil, &d); err != nil {
		v.failed(err)
		return
	}
	v.showLive("Sinks", 10, sinkTable(d.Sinks, v.operates()),
		h.P(h.Class("hint"), g.Text(`A process that stands by does not know the states of sinks: it shows "-".`)))
}

func (v *visit) sourcePage() {
	var d sourceAnswer
	if err := v.get("/source", v.picked("check"), &d); err != nil {
		v.failed(err)
		return
	}
	var log []any
	for _, line := range d.Log {
		log = append(log, line.Name, line.Text)
	}
	v.show("Source", h.P(g.Text(d.Source)), terms(log...), h.H2(g.Text("Check")),
		g.If(len(d.Findings) > 0, h.Ul(h.Class("needs"), g.Map(d.Findings, func(f struct{ Level, What, Fix string }) g.Node {
			return h.Li(state(f.Level), g.Text(" "+f.What), g.If(f.Fix != "", g.Group{h.Br(), h.Strong(g.Text("Fix:")), g.Text(" "), h.Code(g.Text(f.Fix))}))
		}))),
		h.Form(h.Method("get"), h.Action("/source"), hidden("check", "true"), h.Button(g.Text("Check the source"))))
}

// configPage shows the configuration of this process.
func (v *visit) configPage() {
	var d struct {
		YAML string `json:"yaml"`
	}
	if err := v.get("/config", nil, &d); err != nil {
		v.failed(err)
		return
	}
	v.show("Configuration", h.P(h.Class("hint"), g.Text("As the process that serves this page has read it, with defaults filled in. *** stands for what may be secret.")), pre(d.YAML))
}

func (v *visit) auditPage() {
	var d requestsAnswer
	if err := v.get("/requests", v.picked("cursor"), &d); err != nil {
		v.failed(err)
		return
	}
	content := []g.Node{h.P(g.Text("Nobody has asked for anything."))}
	if len(d.Requests) > 0 {
		content = []g.Node{requestTable(d.Requests)}
	}
	if d.Next != "" {
		content = append(content, h.P(link("/audit?cursor="+url.QueryEscape(d.Next), "Older requests")))
	}
	v.show("Audit", content...)
}

func (v *visit) requestPage() {
	var d api.Asked
	if err := v.get("/requests/"+url.PathEscape(v.r.PathValue("id")), nil, &d); err != nil {
		v.failed(err)
		return
	}
	refresh, done, selected := 1, "", g.Node(nil)
	if d.DoneAt != nil {
		refresh, done = 0, clock(*d.DoneAt)
	}
	if len(d.Selection) > 0 {
		selected = g.Group{h.H2(g.Text("Selected")), pre(pretty(string(d.Selection)))}
	}
	v.showLive("Request "+v.r.PathValue("id"), refresh,
		terms("Verb", d.Verb, "By", d.By, "Asked", clock(d.RequestedAt), "Why", d.Why, "Result", h.Span(h.Role("status"), outcome(&d)), "Done", done),
		selected,
		g.If(refresh > 0, h.P(g.Text("The relay has not carried it out yet. "), link(v.r.URL.Path, "Look again"))),
		h.P(link("/deliveries", "Deliveries"), g.Text(" · "), link("/audit", "Audit")))
}
