package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A plannedRelation is a relation that the log has announced. Plan is nil for a table that is not configured.
type plannedRelation struct {
	oid  uint32
	plan *catalog.Plan
}

// relation handles the announcement of a table: before its first row on a connection, and whenever it has changed.
func (st *stream) relation(ctx context.Context, b []byte) error {
	m, err := pgrepl.ParseRelation(b)
	if err != nil {
		return err
	}
	st.last = nil
	table, err := st.configured(ctx, m)
	if err != nil {
		return err
	}
	rel := &plannedRelation{oid: m.OID}
	if table == nil {
		if old := st.relations[m.OID]; old == nil {
			st.cfg.Logger.Warn("ignoring a table of the publication that is not configured", "table", m.Schema+"."+m.Name)
		}
		st.relations[m.OID] = rel
		return nil
	}
	cols := make([]catalog.Column, len(m.Columns))
	for i, c := range m.Columns {
		k, modifier, err := st.watch.kind(ctx, c.TypeOID)
		if err != nil {
			return err
		}
		cols[i] = catalog.NewColumn(c.Name, k, max(modifier, c.Modifier))
	}
	rel.plan, err = catalog.NewPlan(&table.Table, cols)
	if missing := (*columns.Missing)(nil); errors.As(err, &missing) {
		rel.plan, err = st.renamedPlan(ctx, m, cols, missing)
	}
	if err != nil {
		// What came before is good: it is delivered although reading stops here.
		return errors.Join(err, st.flush(ctx))
	}
	for i, c := range rel.plan.Cols {
		if rel.plan.Wanted[i] && c.Kind.TextOnly() && st.binary {
			st.source.textOnly.Store(true)
			return fmt.Errorf("read columns of %s: column %s has a type without a known binary form: reading again with text", table, c.Name)
		}
	}
	st.relations[m.OID] = rel
	return nil
}

// configured returns the configured table that a relation of the log belongs to, or nil. The log has the table's name at that time; the oid stays if
// a table is renamed.
func (st *stream) configured(ctx context.Context, m *pgrepl.Relation) (*catalog.Table, error) {
	name := sqltext.Ident(m.Schema) + "." + sqltext.Ident(m.Name)
	cat := st.watch.catalog()
	if t := cat.ByName[name]; t != nil {
		return t, nil
	}
	known := cat.ByOID[m.OID]
	if known != nil && known.OID != m.OID {
		return known, nil // a partition
	}
	// It was renamed before (then the catalog has the configured name now), is renamed now (then the configured name is
	// gone, which the check finds), is a new partition, or is a table that is not ours.
	cat, err := st.watch.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if t := cat.ByOID[m.OID]; t != nil {
		return t, nil
	}
	if known != nil || st.wasOurs(m.OID) {
		return nil, fmt.Errorf("read rows of table %s: it was a configured table under another name: "+
			"rename it back, or change source.tables and run tailbox init: %w", name, source.ErrStop)
	}
	return nil, nil
}

// wasOurs: rows of the table were read as messages before, on this connection.
func (st *stream) wasOurs(oid uint32) bool {
	rel := st.relations[oid]
	return rel != nil && rel.plan != nil
}
