package columns_test

import (
	"slices"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

func TestPending(t *testing.T) {
	t.Parallel()
	isPending := func(status string) string { return status + " = 'new'" }
	for _, c := range []struct {
		status, delivered string
		there             []string
		want              string
	}{
		{"st", "done", []string{"st", "done"}, "(t.st = 'new' OR t.st IS NULL AND t.done IS NULL)"},
		{"st", "done", []string{"st"}, "(t.st = 'new' OR t.st IS NULL)"},
		{"st", "", []string{"st", "done"}, "(t.st = 'new' OR t.st IS NULL)"},
		{"st", "done", []string{"done"}, "t.done IS NULL"},
		{"", "done", []string{"st", "done"}, "t.done IS NULL"},
		{"", "done", nil, ""},
		{"", "", nil, ""},
	} {
		table := outbox.Table{Columns: outbox.Columns{Status: c.status, DeliveredAt: c.delivered}}
		got := columns.Pending(&table, func(name string) (string, bool) { return "t." + name, slices.Contains(c.there, name) }, isPending)
		if got != c.want {
			t.Errorf("status %q, delivered_at %q, in the table %q: %s, want %s", c.status, c.delivered, c.there, got, c.want)
		}
	}
}
