package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
)

// A Column is one column of a table, as the log or a query describes it.
type Column struct {
	Name     string
	Kind     Kind
	Unsigned bool
	// Bytes is the length of BINARY and BIT in bytes. Digits and scale are those of DECIMAL; digits are the fractional digits of times.
	Bytes         int
	Digits, Scale int
	// Labels of ENUM and SET.
	Labels []string
	// NullDefault: a row that the log holds without this column has NULL in it.
	NullDefault bool
	// Why the column cannot be read, for KindOther.
	Why string
}

// A Plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type Plan struct {
	columns.Plan
	Cols []Column
}

// NewPlan finds the columns of a configured table by name. A missing column that messages cannot do without, or one of the group that cannot be
// read in any row, is an error that matches source.ErrStop.
func NewPlan(t *outbox.Table, cols []Column) (*Plan, error) {
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].Name
	}
	p, err := columns.New(t, names, strings.EqualFold)
	if err != nil {
		return nil, err
	}
	for _, i := range p.Group {
		if c := &cols[i]; c.Kind == KindOther { // no row of the table has a group that can be read
			return nil, fmt.Errorf("read the group (column %s) of %s: %s; or leave the column out of columns.group: %w", c.Name, p.Table, c.Why, source.ErrStop)
		}
	}
	made := &Plan{p, slices.Clone(cols)}
	made.Columns = make([]columns.Column, len(cols))
	for i := range made.Cols {
		made.Columns[i] = &made.Cols[i]
	}
	return made, nil
}
