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
		dead              bool // column gone is set with it
		there             []string
		want              string
	}{
		{"st", "done", false, []string{"st", "done"}, "(t.st = 'new' OR t.st IS NULL AND t.done IS NULL)"},
		{"st", "done", false, []string{"st"}, "(t.st = 'new' OR t.st IS NULL)"},
		{"st", "", false, []string{"st", "done"}, "(t.st = 'new' OR t.st IS NULL)"},
		{"st", "done", false, []string{"done"}, "t.done IS NULL"},
		{"", "done", false, []string{"st", "done"}, "t.done IS NULL"},
		{"", "done", false, nil, ""},
		{"", "", false, nil, ""},
		{"st", "done", true, []string{"st", "done"}, "(t.st = 'new' OR t.st IS NULL AND t.done IS NULL AND t.gone IS NULL)"},
		{"", "done", true, []string{"done"}, "t.done IS NULL AND t.gone IS NULL"},
	} {
		table := outbox.Table{Columns: outbox.Columns{Status: c.status, DeliveredAt: c.delivered}}
		columns.DropMissing(&table, func(name string) bool { return slices.Contains(c.there, name) })
		if c.dead {
			table.Set = []outbox.SetValue{{State: "dead", Column: "gone", Now: true}}
		}
		got := columns.Pending(&table, func(name string) string { return "t." + name }, isPending, nil)
		if got != c.want {
			t.Errorf("status %q, delivered_at %q, in the table %q: %s, want %s", c.status, c.delivered, c.there, got, c.want)
		}
	}
}
