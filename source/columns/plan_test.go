package columns_test

import (
	"errors"
	"slices"
	"strings"
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

// Debezium does not look at the type of an outbox event. A table of its shape may lack it, unless something goes by it.
func TestTypeIsMandatoryWhereSomethingGoesByIt(t *testing.T) {
	t.Parallel()
	equal := func(a, b string) bool { return a == b }
	for _, test := range []struct {
		shape, column string
		needed, stops bool
	}{{"debezium", "type", false, false}, {"debezium", "type", true, true}, {"debezium", "kind", false, true}, {"debezium", "", true, false}, {"tailbox", "type", false, true}} {
		shape, _ := outbox.ShapeNamed(test.shape)
		table := outbox.Table{Name: "outbox", Shape: test.shape, Columns: shape.Columns, NeedsType: test.needed}
		table.Columns.Type = test.column
		p, err := columns.New(&table, []string{"id", "aggregatetype", "aggregateid", "payload"}, equal)
		var missing *columns.Missing
		switch {
		case !test.stops && err != nil:
			t.Errorf("%+v: %v", test, err)
		case test.stops && (!errors.As(err, &missing) || !slices.Contains(missing.Names, test.column)):
			t.Errorf("%+v: %v, want a stop for want of the type", test, err)
		case test.needed && test.stops && !strings.Contains(err.Error(), "columns: {type: null}"):
			t.Errorf("%+v: %v, want the fix", test, err)
		}
		if p.Untyped != (test.shape == "debezium") {
			t.Errorf("%+v: rows without a type: %v", test, p.Untyped)
		}
	}
}
