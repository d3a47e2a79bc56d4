package usertable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// Written reports whether the relay writes to the table.
func (t *Table) Written() bool { return t.OnDelivered != outbox.Keep || t.View.Receipts }

// ours is the further condition by which a row of alias t is this pipeline's; "" if all are.
func (t *Table) ours() string { return catalog.Ours(&t.Table, "t") }

// open is the further condition by which a row of alias t that looks pending is this pipeline's, and does not look dead.
func (t *Table) open() string { return catalog.NotDead(&t.Table, "t") + t.ours() }

// A Table is an outbox table as the database has it, with what statements on its rows need to know.
type Table struct {
	outbox.Table // Schema is set
	// SQL is the quoted name, index that of an index that leads to an id, quoted.
	SQL, Index string
	ID         IDType
	listing    listing
	// hints: the server takes INDEX as a hint.
	hints bool
	cols  map[string]*Column
	// View is what its columns and configuration let the relay do with its rows.
	View store.TableView
	// PendingIndex is an index that leads to pending rows, quoted; "" if there is none.
	PendingIndex string
}

// A Column is a column as information_schema has it.
type Column struct {
	typ, full          string // such as varchar, varchar(20)
	declared           string // full as it was written
	length             int    // in characters, or in bytes for binary types and TEXT; 0 = none
	charset, collation string
	required           bool // cannot be NULL
}

// Tables by their qualified name, as Message.Table has it; order is that of the configuration.
type Tables struct {
	ByName map[string]*Table
	Order  []*Table
}

const (
	columnsQuery = `
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0),
	COALESCE(CHARACTER_SET_NAME, ''), IS_NULLABLE = 'NO', COALESCE(COLLATION_NAME, '')
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`

	// indexesQuery lists the first columns of indexes; whole columns come first, then a primary key and unique ones, shorter ones
	// before longer ones. A TEXT has no other index than one on its beginning. What tells of a hidden one stands between the two parts.
	indexesQuery = `
SELECT s.INDEX_NAME, s.COLUMN_NAME, `
	indexesFrom = ` FROM information_schema.STATISTICS s
WHERE s.TABLE_SCHEMA = ? AND s.TABLE_NAME = ? AND s.SEQ_IN_INDEX = 1 AND s.INDEX_TYPE = 'BTREE'
ORDER BY s.SUB_PART IS NOT NULL, s.NON_UNIQUE, (SELECT COUNT(*) FROM information_schema.STATISTICS n WHERE n.TABLE_SCHEMA = s.TABLE_SCHEMA
	AND n.TABLE_NAME = s.TABLE_NAME AND n.INDEX_NAME = s.INDEX_NAME), s.INDEX_NAME <> 'PRIMARY', s.INDEX_NAME`
)

// ResolveAll finds the configured tables. A missing one is an error only an operator can mend.
func ResolveAll(ctx context.Context, s *session.Session) (Tables, error) {
	ts := Tables{ByName: make(map[string]*Table, len(s.Config.Tables))}
	var missing []error
	for i := range s.Config.Tables {
		t, err := Resolve(ctx, s, s.Config.Tables[i])
		if err != nil {
			return ts, err
		}
		if t == nil {
			missing = append(missing, store.NoTable(quote.Table(&s.Config.Tables[i])))
			continue
		}
		ts.ByName[t.String()] = t
		ts.Order = append(ts.Order, t)
	}
	return ts, errors.Join(missing...)
}

// Resolve looks a table up; nil if it does not exist.
func Resolve(ctx context.Context, s *session.Session, conf outbox.Table) (*Table, error) {
	t := &Table{Table: conf, listing: listingOf(s.Conn.Server), hints: !s.Conn.Server.MariaDB && s.Conn.Server.AtLeast(8, 0, 20), cols: make(map[string]*Column)}
	b := s.Batch()
	b.Each(func(r session.Row) error {
		t.Schema, t.Name = r.Text(0), r.Text(1)
		t.cols[strings.ToLower(r.Text(2))] = &Column{typ: strings.ToLower(r.Text(3)), full: strings.ToLower(r.Text(4)), declared: r.Text(4),
			length: int(min(r.Unsigned(5), 1<<31-1)), charset: r.Text(6), required: r.Bool(7), collation: r.Text(8)}
		return nil
	}, columnsQuery, quote.OrNull(conf.Schema), conf.Name)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("look up table "+conf.Name, err)
	}
	if len(t.cols) == 0 {
		return nil, nil
	}
	if err := catalog.SameName(&conf, &t.Table); err != nil {
		return nil, err
	}
	id := t.Column(conf.Columns.ID)
	if id == nil {
		return nil, fmt.Errorf("%w: table %s has no column %q for the message's id: correct columns.id", source.ErrStop, t, conf.Columns.ID)
	}
	if t.OnDelivered != outbox.Keep && !CanBeID(id.typ) {
		return nil, fmt.Errorf("%w: table %s: column %s, the id, is of type %s, by which rows cannot be found again: use text, BINARY(16) or a whole number",
			source.ErrStop, t, conf.Columns.ID, id.full)
	}
	t.ID, t.SQL = idTypeOf(id, conf.Columns.ID), quote.Table(&t.Table)
	t.Words = columns.Words(&t.Table)
	if err := columns.Unfound(&t.Table, slices.Collect(maps.Keys(t.cols)), strings.EqualFold); err != nil {
		return nil, err
	}
	columns.DropMissing(&t.Table, func(name string) bool { return t.Column(name) != nil })
	if col := t.Column(t.Columns.Status); col != nil {
		if faults := catalog.WordFaults(&t.Table, col.typ, col.declared, col.length); len(faults) > 0 {
			return nil, fmt.Errorf("%w: table %s: %s", source.ErrStop, t, strings.Join(faults, "; "))
		}
	}
	for i := range t.Set {
		v := &t.Set[i]
		switch column := t.Column(v.Column); {
		case column == nil:
			return nil, &store.UnsupportedError{What: fmt.Sprintf("table %s has no column %q, which set.%s names", t, v.Column, v.State), Fix: "correct source.tables"}
		case v.Null && column.required:
			return nil, &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s cannot be NULL, but set.%s.%[1]s is null", v.Column, t, v.State), Fix: "give another value"}
		case v.Now && column.typ != "timestamp" && column.typ != "datetime" && column.typ != "date":
			return nil, &store.UnsupportedError{What: fmt.Sprintf("column %s of table %s, of type %s, is not a time, but set.%s.%[1]s is now", v.Column, t, column.full, v.State),
				Fix: "name a column of type TIMESTAMP, or give a value"}
		}
	}
	t.View = store.ViewOf(&t.Table)
	if c := t.Column(conf.Columns.Receipt); t.View.Receipts && (c == nil || !strings.HasSuffix(c.typ, "text") && !strings.HasSuffix(c.typ, "char")) {
		return nil, fmt.Errorf("%w: table %s has no column %q of type TEXT for receipts: ALTER TABLE %s ADD COLUMN %s TEXT, or correct columns.receipt",
			source.ErrStop, t, conf.Columns.Receipt, t.SQL, quote.Ident(conf.Columns.Receipt))
	}
	return t, t.findIndexes(ctx, s)
}

// findIndexes finds the index by which rows are looked up. Without one each statement would read, and lock, all rows, and
// wait for those that are being written.
func (t *Table) findIndexes(ctx context.Context, s *session.Session) error {
	says := t.Columns.Status
	if says == "" {
		says = t.Columns.DeliveredAt
	}
	hidden := ""
	b := s.Batch()
	b.Each(func(r session.Row) error {
		switch name, column := quote.Ident(r.Text(0)), r.Text(1); {
		case r.Bool(2):
			if strings.EqualFold(column, t.Columns.ID) && hidden == "" {
				hidden = name
			}
		case strings.EqualFold(column, t.Columns.ID) && t.Index == "":
			t.Index = name
		case strings.EqualFold(column, says) && t.PendingIndex == "":
			t.PendingIndex = name
		}
		return nil
	}, indexesQuery+catalog.HiddenIndex(s.Conn.Server)+indexesFrom, t.Schema, t.Name)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("look up indexes of table "+t.Name, err)
	}
	if t.Index == "" && hidden != "" {
		return fmt.Errorf("%w: table %s has no index on the message's id but %s, which is hidden from queries: %s", source.ErrStop, t, hidden,
			catalog.ShowIndex(s.Conn.Server, t.SQL, hidden))
	}
	if t.Index != "" {
		return nil
	}
	there := false
	b = s.Batch()
	b.Each(func(session.Row) error { there = true; return nil }, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", t.Schema, t.Name)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("look up table "+t.Name, err)
	}
	if !there { // it was renamed since its columns were read
		return fmt.Errorf("%w: table %s does not exist any more", source.ErrNoTable, t)
	}
	return fmt.Errorf("%w: table %s has no index on the message's id: ALTER TABLE %s ADD UNIQUE (%s)", source.ErrStop, t, t.SQL,
		quote.Ident(t.Columns.ID))
}

// Column finds a column; nil if there is none.
func (t *Table) Column(name string) *Column {
	if name == "" {
		return nil
	}
	return t.cols[strings.ToLower(name)]
}

// col is the quoted name of a configured column that the table has; "" if it has none.
func (t *Table) col(name string) string {
	if t.Column(name) == nil {
		return ""
	}
	return quote.Ident(name)
}

// Pending is the condition by which a row of alias t waits for its first delivery; "TRUE" if no column tells. A status
// that is NULL counts, unless another column shows that the row is delivered or dead.
func (t *Table) Pending() string {
	c := &t.Columns
	switch {
	case c.Status != "" && t.Column(c.Status).required:
		return columns.IsPending(&t.Table, "t."+quote.Ident(c.Status), quote.Text) + t.open()
	case c.Status != "":
		return "(" + columns.IsPending(&t.Table, "t."+quote.Ident(c.Status), quote.Text) + " OR " + catalog.Unlabelled(&t.Table, "t") + ")" + t.open()
	case c.DeliveredAt != "":
		return "t." + quote.Ident(c.DeliveredAt) + " IS NULL" + t.open()
	}
	return "TRUE" + t.open()
}
