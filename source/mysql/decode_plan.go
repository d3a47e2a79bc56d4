package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
)

// A column is one column of a table, as the log or a query describes it.
type column struct {
	name     string
	kind     kind
	unsigned bool
	// size is the length of BINARY and BIT in bytes. Digits and scale are those of DECIMAL; digits are the fractional digits of times.
	size          int
	digits, scale int
	// labels of ENUM and SET.
	labels []string
	// nullDefault: a row that the log holds without this column has NULL in it.
	nullDefault bool
	// why the column cannot be read, for kindOther.
	why string
}

// A plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type plan struct {
	columns.Plan
	cols []column
}

// newPlan finds the columns of a configured table by name. A missing column that messages cannot do without, or one of the group that cannot be
// read in any row, is an error that matches source.ErrStop.
func newPlan(t *outbox.Table, cols []column) (*plan, error) {
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].name
	}
	p, err := columns.New(t, names, strings.EqualFold)
	if err != nil {
		return nil, err
	}
	for _, i := range p.Group {
		if c := &cols[i]; c.kind == kindOther { // no row of the table has a group that can be read
			return nil, fmt.Errorf("read the group (column %s) of %s: %s; or leave the column out of columns.group: %w", c.name, p.Table, c.why, source.ErrStop)
		}
	}
	made := &plan{p, slices.Clone(cols)}
	made.Columns = make([]columns.Column, len(cols))
	for i := range made.cols {
		made.Columns[i] = &made.cols[i]
	}
	return made, nil
}
