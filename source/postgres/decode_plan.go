package postgres

import (
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// A column is one column of a relation, as the log or a query describes it.
type column struct {
	name string
	kind kind
	typ  outbox.FieldType
}

// newColumn describes a column by the kind of its type, and the type's modifier, such as the digits of a time; below 0 it has none.
func newColumn(name string, k kind, modifier int) column {
	return column{name, k, k.fieldType(modifier)}
}

// A plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type plan struct {
	columns.Plan
	cols []column
}

// newPlan finds the columns of a configured table by name. A missing column that messages cannot do without is an error
// that matches source.ErrStop.
func newPlan(t *outbox.Table, cols []column) (*plan, error) {
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].name
	}
	p, err := columns.New(t, names, func(a, b string) bool { return a == b })
	if err != nil {
		return nil, err
	}
	made := &plan{p, slices.Clone(cols)}
	made.Columns = make([]columns.Column, len(cols))
	for i := range made.cols {
		made.Columns[i] = &made.cols[i]
	}
	return made, nil
}
