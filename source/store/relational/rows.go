package relational

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// A Table is an outbox table as settlements see it.
type Table struct {
	*outbox.Table // Schema is set
	View          *store.TableView
	// Findable reports whether a row can have the id.
	Findable func(id string) bool
}

// Configured are the tables as they are configured, with their schema.
func (c *Core) Configured() []*outbox.Table {
	tables := c.db.Tables()
	out := make([]*outbox.Table, len(tables))
	for i := range tables {
		out[i] = tables[i].Table
	}
	return out
}

// A RowChange is what is to happen to one row of a user's table.
type RowChange struct {
	ID string
	// Index is that of the row in Settlement.Rows; -1 for a message whose row was settled before. Txn is as in Row.
	Index int
	Txn   uint64
	// Message is the row's, if deliveries of it are or were parked.
	Message          *store.Message
	*store.RowChange // rows that get the same may share it
}

// Rows are rows of one table that are all deleted, or all changed.
type Rows struct {
	Table  string
	Delete bool
	// Alike: all rows get the same.
	Alike   bool
	Changes []RowChange
}

// PlainRows are the rows of messages without parked deliveries, table by table.
func (a *Attempt) PlainRows(tables []Table) []Rows {
	type plain struct {
		table *Table
		same  *store.RowChange // what each row gets if the table has no column for receipts; nil: rows are left alone
		rows  Rows
	}
	all, byName := make([]plain, len(tables)), make(map[string]*plain, len(tables))
	for i := range tables {
		t, name := &tables[i], tables[i].String()
		del := t.View.OnDelivered == outbox.Delete
		all[i] = plain{t, delivered(t.View, ""), Rows{Table: name, Delete: del, Alike: del || !t.View.Receipts}}
		byName[name] = &all[i]
	}
	var p *plain
	var name string
	for i := range a.In.Rows {
		r := &a.In.Rows[i]
		if p == nil || r.Table != name {
			p, name = byName[r.Table], r.Table // looked up only if the table changes, which is rare
		}
		if p == nil || r.Parked || !p.table.Findable(r.ID) {
			continue // a table that left the configuration is left alone, and a row without an id cannot be found
		}
		to := p.same
		if p.table.View.Receipts {
			to = delivered(p.table.View, r.Receipt)
		}
		if to == nil {
			continue
		}
		if p.rows.Changes == nil {
			p.rows.Changes = make([]RowChange, 0, len(a.In.Rows)-i)
		}
		p.rows.Changes = append(p.rows.Changes, RowChange{ID: r.ID, Index: i, Txn: r.Txn, RowChange: to})
	}
	var out []Rows
	for i := range all {
		if len(all[i].rows.Changes) > 0 {
			out = append(out, all[i].rows)
		}
	}
	return out
}

// delivered returns the change for the row of a message that all sinks took at the first attempt; nil: the row is left alone.
func delivered(view *store.TableView, receipt string) *store.RowChange {
	c := &store.RowChange{Attempts: 1, Receipt: receipt}
	if _, touch := view.Delivered(c, false); !touch {
		return nil
	}
	return c
}

// MessageRows are the rows of messages that have or had parked deliveries, table by table: on_delivered decides if nothing is parked any more,
// else they show what is. Visible is as in DecideRows.
func (a *Attempt) MessageRows(tables []Table, visible func(txn uint64) bool) (out []Rows) {
	byName := make(map[string]*Table, len(tables))
	for i := range tables {
		byName[tables[i].String()] = &tables[i]
	}
	view := func(m *store.Message) *store.TableView {
		t := byName[m.Key.Table]
		if t == nil || !t.Findable(m.Key.ID) {
			return nil
		}
		return t.View
	}
	deleted, changed := make(map[string][]RowChange), make(map[string][]RowChange)
	a.DecideRows(view, visible, func(m *store.Message, del bool, c *store.RowChange) {
		rows := changed
		if del {
			rows = deleted
		}
		rows[m.Key.Table] = append(rows[m.Key.Table], RowChange{ID: m.Key.ID, Index: m.Row, Txn: m.Txn, Message: m, RowChange: c})
	})
	for i := range tables {
		name := tables[i].String()
		if rows := deleted[name]; len(rows) > 0 {
			out = append(out, Rows{name, true, true, rows})
		}
		if rows := changed[name]; len(rows) > 0 {
			out = append(out, Rows{name, false, false, rows})
		}
	}
	return out
}

// Cleanup is what is done about parked deliveries after their messages' rows were dealt with.
func (c *Core) Cleanup(a *Attempt) *store.Cleanup {
	do := store.CleanupOf(a.Messages.Order, a.Skipped)
	c.Unfinished = c.Unfinished || do.Locked
	return do
}
