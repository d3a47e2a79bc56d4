package stream

import (
	"context"
	"strings"

	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// renamedPlan is the plan for rows that lack columns by name. The log names columns as they were called then. If it is certain which columns these
// are, renamedPlan uses today's names. If not, an operator has to act.
func (st *stream) renamedPlan(ctx context.Context, m *pgrepl.Relation, cols []catalog.Column, missing *columns.Missing) (*catalog.Plan, error) {
	// The catalog must be younger than what was announced.
	cat, err := st.watch.refresh(ctx)
	if err != nil {
		return nil, err
	}
	t := cat.ByOID[m.OID]
	if t == nil {
		return nil, missing
	}
	if cat.SameColumns(t, m) {
		for i := range cols {
			cols[i].Name = t.Cols[i].Name
		}
		p, err := catalog.NewPlan(&t.Table, cols)
		if err == nil {
			st.cfg.Logger.Info("reading rows from before columns were renamed", "table", t.String(), "columns", strings.Join(catalog.ColumnNames(m), ", "))
			return p, nil
		}
	}
	return nil, t.MissingInLog(m, missing)
}
