package console

import (
	"net/url"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/internal/api"
)

// streamSeconds is after how long a stream ends, and the browser asks for the next: who has logged out sees no more then.
const streamSeconds = 60

// livePage shows deliveries as they happen. The page's script fills its table.
func (v *visit) livePage() {
	q := v.picked("sink", "type", "group", "topic")
	columns := []string{"Time", "Sink", "Type", "Group", "Message", "Outcome", "Attempt", "Latency"}
	if v.reads() {
		columns = append(columns, "Payload")
	}
	v.show("Live",
		h.Form(h.Class("filters"), h.Method("get"), h.Action("/live"),
			v.sinkSelect(q.Get("sink")),
			field("Type", "type", q.Get("type")), field("Group", "group", q.Get("group")), field("Topic", "topic", q.Get("topic")),
			h.Button(g.Text("Filter"))),
		h.P(h.ID("live-state"), h.Role("status"), g.Text("This page needs its script.")),
		h.P(h.Button(h.ID("live-stop"), h.Type("button"), g.Text("Stop"))),
		h.Div(h.ID("live"), h.Data("stream", "/live/stream?"+q.Encode()), h.Data("columns", strconv.Itoa(len(columns))), table("Deliveries", columns)),
		h.P(h.Class("hint"), g.Text("Deliveries of the process that serves this page, the last 200, at most 100 a second. The relay that holds the lock is the one that delivers.")))
}

// liveStream passes the live tail of the API on.
func (v *visit) liveStream() {
	q := v.picked("sink", "type", "group", "topic")
	q.Set("seconds", strconv.Itoa(streamSeconds))
	if v.reads() {
		q.Set("payload", "true")
	}
	r := v.r.Clone(api.As(v.r.Context(), v.who))
	r.URL = &url.URL{Path: api.Prefix + "/tail", RawQuery: q.Encode()}
	v.API.ServeHTTP(v.w, r)
}
