package console

import (
	"net/http"
	"net/url"
	"time"

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
		More   bool         `json:"more"`
	}
	asked struct {
		ID          int64      `json:"id"`
		Verb        string     `json:"verb"`
		By          string     `json:"by"`
		Why         string     `json:"why"`
		RequestedAt time.Time  `json:"requested_at"`
		DoneAt      *time.Time `json:"done_at"`
		Changed     int        `json:"changed"`
		Refused     int        `json:"refused"`
		RefusedWhy  string     `json:"refused_why"`
		Note        string     `json:"note"`
		Error       string     `json:"error"`
		NewID       string     `json:"new_id"`
		Selection   any        `json:"selection"`
	}
	requestsAnswer struct {
		Requests []asked `json:"requests"`
		Next     string  `json:"next"`
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
func (p *pipelineAnswer) needs(sinks []report.SinkCount) (all []need) {
	if !p.Running {
		all = append(all, need{What: "No relay holds the pipeline's lock.", Fix: "Look at the log of the process that should run, and start tailbox run."})
	}
	if p.Waiting != "" {
		all = append(all, need{What: "The database sends nothing: " + p.Waiting, Fix: "Look at the page Source.", Link: "/source"})
	}
	for i := range sinks {
		s := &sinks[i]
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
	for _, h := range p.Status.Held {
		all = append(all, need{What: "Group " + h.Group + " is held by an operator.", Fix: "Resume it when it may go on.", Link: "/groups" + query([]string{"group", h.Group})})
	}
	return all
}

// deadLink is the address of the dead letters of a sink.
func deadLink(sink string) string {
	if sink == "" {
		return "/deliveries?unrouted=true"
	}
	return "/deliveries" + query([]string{"sink", sink})
}

type overviewData struct {
	Pipeline *pipelineAnswer
	Sinks    []report.SinkCount
	Needs    []need
}

func (v *visit) overviewPage() {
	var p pipelineAnswer
	var sinks sinksAnswer
	if err := v.get("/pipeline", nil, &p); err != nil {
		v.failed(err)
		return
	}
	if err := v.get("/sinks", nil, &sinks); err != nil {
		v.failed(err)
		return
	}
	v.showWith("overview", "Overview", 10, overviewData{&p, sinks.Sinks, p.needs(sinks.Sinks)})
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

type deliveriesData struct {
	deliveriesAnswer
	Sinks  []report.SinkCount
	Query  url.Values
	States map[string]bool
	// NextPage is the address of the page that follows; "" for none.
	NextPage string
}

func (v *visit) deliveriesPage() {
	q := v.picked("state", "sink", "group", "id", "table", "type", "reason", "unrouted", "cursor", "limit")
	d := deliveriesData{Query: q, States: map[string]bool{}}
	var sinks sinksAnswer
	err := v.get("/deliveries", q, &d.deliveriesAnswer)
	if err == nil {
		err = v.get("/sinks", nil, &sinks)
	}
	if err != nil {
		v.failed(err)
		return
	}
	d.Sinks = sinks.Sinks
	for _, state := range q["state"] {
		d.States[state] = true
	}
	if len(d.States) == 0 {
		d.States["dead"] = true
	}
	if d.Next != "" {
		next := url.Values{}
		for name, values := range q {
			next[name] = values
		}
		next.Set("cursor", d.Next)
		d.NextPage = "/deliveries?" + next.Encode()
	}
	v.show("deliveries", "Deliveries", d)
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
	d := messageData{ID: id, Sink: v.r.URL.Query().Get("sink"), Table: v.r.URL.Query().Get("table")}
	if v.page("", 0, nil).Reads {
		var found messagesAnswer
		if err := v.get("/deliveries/"+url.PathEscape(id), v.picked("sink", "table"), &found); err != nil {
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
		if err := v.get("/deliveries", url.Values{"sink": {one.Sink}, "group": {one.Group}, "state": {"waiting", "retrying"}, "limit": {"20"}}, &behind); err != nil {
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
	v.show("message", "Message "+id, d)
}

func (v *visit) groupsPage() {
	var d groupsAnswer
	if err := v.get("/groups", v.picked("sink", "group", "limit"), &d); err != nil {
		v.failed(err)
		return
	}
	v.show("groups", "Groups", d)
}

func (v *visit) sinksPage() {
	var d sinksAnswer
	if err := v.get("/sinks", nil, &d); err != nil {
		v.failed(err)
		return
	}
	v.showWith("sinks", "Sinks", 10, d)
}

func (v *visit) sourcePage() {
	var d sourceAnswer
	if err := v.get("/source", v.picked("check"), &d); err != nil {
		v.failed(err)
		return
	}
	v.show("source", "Source", d)
}

type auditData struct {
	requestsAnswer
	NextPage string
}

func (v *visit) auditPage() {
	var d auditData
	if err := v.get("/requests", v.picked("cursor"), &d.requestsAnswer); err != nil {
		v.failed(err)
		return
	}
	if d.Next != "" {
		d.NextPage = "/audit?cursor=" + url.QueryEscape(d.Next)
	}
	v.show("audit", "Audit", d)
}

func (v *visit) requestPage() {
	var d asked
	if err := v.get("/requests/"+url.PathEscape(v.r.PathValue("id")), nil, &d); err != nil {
		v.failed(err)
		return
	}
	refresh := 1
	if d.DoneAt != nil {
		refresh = 0
	}
	v.showWith("request", "Request "+v.r.PathValue("id"), refresh, d)
}
