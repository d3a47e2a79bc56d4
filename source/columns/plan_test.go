package columns_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
)

// Messages are chosen by a tenant only where the table has one: else all would be passed over.
func TestTenantIsMandatoryWhereMessagesAreChosenByIt(t *testing.T) {
	t.Parallel()
	shape, _ := outbox.ShapeNamed("tailbox")
	equal := func(a, b string) bool { return a == b }
	for _, tenants := range [][]string{nil, {"a"}} {
		table := outbox.Table{Name: "outbox", Shape: "tailbox", Columns: shape.Columns, Tenants: tenants}
		_, err := columns.New(&table, []string{"id", "type", "payload"}, equal)
		if tenants == nil {
			if err != nil {
				t.Errorf("without tenants: %v", err)
			}
			continue
		}
		var missing *columns.Missing
		if !errors.As(err, &missing) || !slices.Contains(missing.Names, "tenant") || !errors.Is(err, source.ErrStop) {
			t.Errorf("tenants %v: %v, want a stop for want of the column tenant", tenants, err)
		}
		if _, err := columns.New(&table, []string{"id", "type", "payload", "tenant"}, equal); err != nil {
			t.Errorf("with the column: %v", err)
		}
	}
}
