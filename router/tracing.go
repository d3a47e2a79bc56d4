package router

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// defaultContextColumn is where Debezium looks for a trace context.
const defaultContextColumn = "tracingspancontext"

// contextHeaders are the headers of W3C Trace Context and Baggage, in the order in which they are added.
func contextHeaders() []string { return []string{"traceparent", "tracestate", "baggage"} }

// addContext passes the trace context of a row on as headers. A row without one, or with one that cannot be read or is too large for headers, has
// none: a trace is no reason to hold a message up.
func (s *shaper) addContext(m *outbox.Message, d *sink.Delivery) {
	c, found := s.context.read(m)
	if !found || c.text == nil || len(c.text) > outbox.MaxHeaderBytes {
		return
	}
	context := map[string]string{}
	for _, p := range ParseProperties(c.text) {
		context[p.Key] = p.Value
	}
	for _, name := range contextHeaders() {
		value, ok := context[name]
		if !ok || name == "traceparent" && !isTraceParent(value) {
			continue
		}
		text := []byte(value)
		if s.jsonHeaders {
			text = s.contextSchema.append(nil, cell{text: text})
		}
		d.Headers = append(d.Headers, outbox.Header{Name: name, Value: text})
	}
}

// isTraceParent reports whether a text has the form of W3C's traceparent: version-trace-parent-flags.
func isTraceParent(s string) bool {
	if len(s) < 55 || len(s) > 55 && s[55] != '-' || s[:2] == "ff" {
		return false
	}
	for i := range 55 {
		c := s[i]
		switch {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
