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
		columns.DropMissing(&table, func(name string) bool { return slices.Contains(c.there, name) })
		got := columns.Pending(&table, func(name string) string { return "t." + name }, isPending)
		if got != c.want {
			t.Errorf("status %q, delivered_at %q, in the table %q: %s, want %s", c.status, c.delivered, c.there, got, c.want)
		}
	}
}
