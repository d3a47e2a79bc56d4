package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// renamedPlan is the plan for rows that lack columns by name. The log announces columns by their names at that time; where it is certain
// which ones they are today, their names of today are used. Else an operator has to act.
func (st *stream) renamedPlan(ctx context.Context, m *pgrepl.Relation, cols []column, missing *columns.Missing) (*plan, error) {
	// The catalog must be younger than what was announced.
	cat, err := st.watch.refresh(ctx)
	if err != nil {
		return nil, err
	}
	t := cat.byOID[m.OID]
	if t == nil {
		return nil, missing
	}
	if cat.sameColumns(t, m) {
		for i := range cols {
			cols[i].name = t.columns[i].name
		}
		p, err := newPlan(&t.Table, cols)
		if err == nil {
			st.cfg.Logger.Info("reading rows from before columns were renamed", "table", t.String(), "columns", strings.Join(columnNames(m), ", "))
			return p, nil
		}
	}
	return nil, t.missingInLog(m, missing)
}

// sameColumns tells whether the columns that the log announced are the table's first ones of today for certain, some of
// them renamed since.
func (cat *catalog) sameColumns(t *tableInfo, m *pgrepl.Relation) bool {
	listed := len(cat.published[tableName(&t.Table)])
	if t.oid != m.OID || !t.intact || listed != 0 && listed != len(t.columns) || len(m.Columns) > len(t.columns) {
		return false
	}
	for i, c := range m.Columns {
		now := t.columns[i]
		if c.Name == now.name {
			continue
		}
		if _, elsewhere := t.column(c.Name); elsewhere || c.TypeOID != now.typeOID {
			return false
		}
	}
	return true
}

func columnNames(m *pgrepl.Relation) []string {
	names := make([]string, len(m.Columns))
	for i, c := range m.Columns {
		names[i] = c.Name
	}
	return names
}

// generatedCure is the other cure for a generated column.
const generatedCure = ", or, from Postgres 18 on and for rows written after it, let the publication have publish_generated_columns = stored"

func (t *tableInfo) generatedColumn(name string) error {
	return fmt.Errorf("read columns of %s: column %s is generated, and the log does not hold it: name a stored one under source.tables.columns%s: %w",
		t, name, generatedCure, source.ErrStop)
}

// missingInLog says what helps where rows in the log lack columns.
func (t *tableInfo) missingInLog(m *pgrepl.Relation, missing *columns.Missing) error {
	var gone, later []string
	for _, name := range missing.Names {
		c, ok := t.column(name)
		if ok && c.generated {
			return t.generatedColumn(name)
		}
		if ok {
			later = append(later, name)
		} else {
			gone = append(gone, name)
		}
	}
	have := columnNames(m)
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
		what, strings.Join(later, ", "), tableName(&t.Table), source.ErrStop)
}
