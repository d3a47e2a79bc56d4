package sink_test

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// An application's headers cannot pass for tailbox's own, by which consumers drop duplicates; the router's may.
func TestOwnHeadersAreNotForged(t *testing.T) {
	t.Parallel()
	d := &sink.Delivery{
		Message: &outbox.Message{ID: "7", Headers: []outbox.Header{{Name: "ID"}, {Name: "a"}, {Name: "Tailbox-Position"}, {Name: "tailbox-group"}, {Name: "idx"}, {Name: "tailbox"}}},
		Headers: []outbox.Header{{Name: sink.HeaderReplaces}, {Name: "id"}},
	}
	for metadata, want := range map[bool]string{
		false: " id tailbox-replaces id a idx tailbox",
		true:  " id tailbox-replaces id a idx tailbox tailbox-type tailbox-group tailbox-position tailbox-attempt tailbox-source",
	} {
		got := ""
		for _, h := range sink.AppendHeaders(nil, d, metadata) {
			got += " " + h.Name
		}
		if got != want {
			t.Errorf("metadata %v:%s, want%s", metadata, got, want)
		}
	}
}
