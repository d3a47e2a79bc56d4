package catalog

import (
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// A Column is one column of a relation, as the log or a query describes it.
type Column struct {
	Name string
	Kind Kind
	typ  outbox.FieldType
}

// NewColumn describes a column by the kind of its type, and the type's modifier, such as the digits of a time; below 0 it has none.
func NewColumn(name string, k Kind, modifier int) Column {
	return Column{name, k, k.fieldType(modifier)}
}

// A Plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type Plan struct {
	columns.Plan
	Cols []Column
}

// NewPlan finds the columns of a configured table by name. A missing column that messages cannot do without is an error
// that matches source.ErrStop.
func NewPlan(t *outbox.Table, cols []Column) (*Plan, error) {
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].Name
	}
	p, err := columns.New(t, names, func(a, b string) bool { return a == b })
	if err != nil {
		return nil, err
	}
	made := &Plan{p, slices.Clone(cols)}
	made.Columns = make([]columns.Column, len(cols))
	for i := range made.Cols {
		made.Columns[i] = &made.Cols[i]
	}
	return made, nil
}
