package store_test

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// TestRowOfDropped: nothing is left to do for the row of a message that an operator dropped, so it must not look pending.
func TestRowOfDropped(t *testing.T) {
	t.Parallel()
	flag := outbox.Table{OnDelivered: outbox.Mark, Columns: outbox.Columns{ID: "id", Status: "acked"}}
	flag.Words = outbox.Words{Pending: "false", Retrying: "false", Waiting: "false", Delivered: "true", Dead: "false"}
	beside := flag
	beside.Set = []outbox.SetValue{{State: "dead", Column: "blocked", Value: "true"}}
	words := flag
	words.Words.Dead = "dead"
	for name, c := range map[string]struct {
		table outbox.Table
		want  string
	}{"a flag alone": {flag, "delivered"}, "a flag beside another": {beside, "dead"}, "a word": {words, "dead"}} {
		view, change := store.ViewOf(&c.table), store.RowChange{}
		if _, touch := view.Delivered(&change, true); !touch || change.State != c.want {
			t.Errorf("%s: touched %t, %q, want %q", name, touch, change.State, c.want)
		}
	}
}
