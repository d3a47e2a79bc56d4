package router_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// TestPlacedHeadersAreBounded: a column that is too large for a header makes a dead letter that names it.
func TestPlacedHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"},
		Options: router.Options{"table.fields.additional.placement": "word:header:w,shard:header:s"}})
	place := func(n int) error {
		m := invoice()
		m.Fields[2].Value = []byte(strings.Repeat("x", n))
		_, err := r.Route(m, &sink.Delivery{})
		return err
	}
	const room = outbox.MaxHeaderBytes - len("w") - len("s7")
	if err := place(room); err != nil {
		t.Errorf("headers of 64 KiB: %v", err)
	}
	for _, n := range []int{room + 1, 10 << 20} {
		if err := place(n); err == nil || !strings.Contains(err.Error(), "of at most 65536") || len(err.Error()) > 500 {
			t.Errorf("a header of %d bytes: %v", n, err)
		}
	}
}

// TestTraceContextIsBounded: a trace context that is too large for headers is left out, and holds nothing up.
func TestTraceContextIsBounded(t *testing.T) {
	t.Parallel()
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "debezium", "outbox")}, Sinks: []string{"out"},
		Options: router.Options{"tracing.span.context.field": "word"}})
	for n, want := range map[int]int{1000: 1, 10 << 20: 0} {
		m := invoice()
		m.Fields[2].Value = []byte("baggage=" + strings.Repeat("x", n))
		var d sink.Delivery
		if _, err := r.Route(m, &d); err != nil || len(d.Headers) != want {
			t.Errorf("a context of %d bytes: %d headers, %v", n, len(d.Headers), err)
		}
	}
}

// TestErrorsShowTheBeginning: what cannot be routed is named by the beginning of its texts.
func TestErrorsShowTheBeginning(t *testing.T) {
	t.Parallel()
	r := mustNew(t, router.Config{Tables: []outbox.Table{table(t, "tailbox", "outbox")}, Sinks: []string{"out"},
		Routes: []router.RouteConfig{{Match: map[string][]string{"type": {"other"}}, To: []string{"out"}}}})
	m := &outbox.Message{ID: "1", Type: "t", Topic: strings.Repeat("y", outbox.MaxGroup), Table: "public.outbox"}
	if _, err := r.Route(m, &sink.Delivery{}); err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "yyy") {
		t.Errorf("got %v", err)
	}
}

// TestLongGroups: routes and topics see a long group as the application wrote it, not as tailbox indexes it.
func TestLongGroups(t *testing.T) {
	t.Parallel()
	grouped := table(t, "tailbox", "outbox")
	grouped.Columns.Topic, grouped.Topic = "", "t.${group}"
	r := mustNew(t, router.Config{Tables: []outbox.Table{grouped}, Sinks: []string{"out"},
		Routes: []router.RouteConfig{{Match: map[string][]string{"group": {"*end"}}, To: []string{"out"}}}})
	m := &outbox.Message{ID: "1", Type: "t", Table: "public.outbox"}
	long := strings.Repeat("g", 2000) + "end"
	if m.SetGroup(long) || len(m.Group) > outbox.MaxIndexed {
		t.Fatalf("the lane of a group of %d bytes is %q", len(long), m.Group)
	}
	var d sink.Delivery
	if _, err := r.Route(m, &d); err != nil || d.Topic != "t."+long {
		t.Errorf("topic of %d bytes, error %v", len(d.Topic), err)
	}
}
