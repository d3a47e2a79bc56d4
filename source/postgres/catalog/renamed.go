package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// SameColumns reports whether the log's columns are certainly the first columns of today's table, some of them renamed since.
func (cat *View) SameColumns(t *Table, m *pgrepl.Relation) bool {
	listed := len(cat.published[sqltext.Table(&t.Table)])
	if t.OID != m.OID || !t.intact || listed != 0 && listed != len(t.Cols) || len(m.Columns) > len(t.Cols) {
		return false
	}
	for i, c := range m.Columns {
		now := t.Cols[i]
		if c.Name == now.Name {
			continue
		}
		if _, elsewhere := t.Column(c.Name); elsewhere || c.TypeOID != now.typeOID {
			return false
		}
	}
	return true
}

// ColumnNames are the names that the log announced.
func ColumnNames(m *pgrepl.Relation) []string {
	names := make([]string, len(m.Columns))
	for i, c := range m.Columns {
		names[i] = c.Name
	}
	return names
}

// GeneratedFix is the other fix for a generated column.
const GeneratedFix = ", or, from Postgres 18 on and for rows written after it, let the publication have publish_generated_columns = stored"

func (t *Table) generatedColumn(name string) error {
	return fmt.Errorf("read columns of %s: column %s is generated, and the log does not hold it: name a stored one under source.tables.columns%s: %w",
		t, name, GeneratedFix, source.ErrStop)
}

// MissingInLog says what helps where rows in the log lack columns.
func (t *Table) MissingInLog(m *pgrepl.Relation, missing *columns.Missing) error {
	var gone, later []string
	for _, name := range missing.Names {
		c, ok := t.Column(name)
		if ok && c.Generated {
			return t.generatedColumn(name)
		}
		if ok {
			later = append(later, name)
		} else {
			gone = append(gone, name)
		}
	}
	have := ColumnNames(m)
	slices.Sort(have)
	what := fmt.Sprintf("read columns of %s: no column %s in the rows that come next in the log, which have %s", t,
		strings.Join(missing.Names, ", "), strings.Join(have, ", "))
	if len(gone) > 0 {
		return fmt.Errorf("%s; what was written before is read. Where %s was renamed, name the new column under source.tables.columns; where it was dropped, "+
			"take it out there; then start again: %w", what, strings.Join(gone, ", "), source.ErrStop)
	}
	return fmt.Errorf("%s: they were written before the table had %s. Where it was renamed, give it the old name again (ALTER TABLE %s RENAME COLUMN …), "+
		"name that under source.tables.columns, and start again; when the relay stops at the next rows, or tailbox status shows that all is read, "+
		"rename it in both and start again. Where it was added, take it out of source.tables.columns until these rows are read; where the publication's column list left it out, it is in none of these rows: %w",
		what, strings.Join(later, ", "), sqltext.Table(&t.Table), source.ErrStop)
}
