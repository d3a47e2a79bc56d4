package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/store"
)

// A table is an outbox table as the database has it.
type table struct {
	outbox.Table // Schema is set
	// sql is the quoted name, index that of an index that leads to an id, quoted.
	sql, index string
	id         idType
	listing    listing
	// hints: the server takes INDEX as a hint.
	hints   bool
	columns map[string]*tableColumnType
	// view is what its columns and configuration let the relay do with its rows.
	view store.TableView
	// pendingIndex is an index that leads to pending rows, quoted; "" where there is none.
	pendingIndex string
}

// A tableColumnType is a column as information_schema has it.
type tableColumnType struct {
	typ, full          string // such as varchar, varchar(20)
	declared           string // full as it was written
	length             int    // in characters, or in bytes for binary types and TEXT; 0 = none
	charset, collation string
	required           bool // cannot be NULL
}

// tables by their qualified name, as Message.Table has it; order is that of the configuration.
type tables struct {
	byName map[string]*table
	order  []*table
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

// resolveTables finds the configured tables. A missing one is an error only an operator can mend.
func resolveTables(ctx context.Context, s *relaySession) (tables, error) {
	ts := tables{byName: make(map[string]*table, len(s.cfg.Tables))}
	var missing []error
	for i := range s.cfg.Tables {
		t, err := resolveTable(ctx, s, s.cfg.Tables[i])
		if err != nil {
			return ts, err
		}
		if t == nil {
			missing = append(missing, fmt.Errorf("%w: table %s does not exist: create it (tailbox init does where the shape is "+
				"debezium or tailbox), or correct source.tables", source.ErrNoTable, tableName(&s.cfg.Tables[i])))
			continue
		}
		ts.byName[t.String()] = t
		ts.order = append(ts.order, t)
	}
	return ts, errors.Join(missing...)
}

// resolveTable looks a table up; nil if it does not exist.
func resolveTable(ctx context.Context, s *relaySession, conf outbox.Table) (*table, error) {
	t := &table{Table: conf, listing: listingOf(s.sess.server), hints: !s.sess.server.mariadb && s.sess.server.atLeast(8, 0, 20), columns: make(map[string]*tableColumnType)}
	b := s.batch()
	b.each(func(r row) error {
		t.Schema, t.Name = r.text(0), r.text(1)
		t.columns[strings.ToLower(r.text(2))] = &tableColumnType{typ: strings.ToLower(r.text(3)), full: strings.ToLower(r.text(4)), declared: r.text(4),
			length: int(min(r.unsigned(5), 1<<31-1)), charset: r.text(6), required: r.bool(7), collation: r.text(8)}
		return nil
	}, columnsQuery, orNull(conf.Schema), conf.Name)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("look up table "+conf.Name, err)
	}
	if len(t.columns) == 0 {
		return nil, nil
	}
	if err := sameName(&conf, &t.Table); err != nil {
		return nil, err
	}
	id := t.column(conf.Columns.ID)
	if id == nil {
		return nil, fmt.Errorf("%w: table %s has no column %q for the message's id: correct columns.id", source.ErrStop, t, conf.Columns.ID)
	}
	if t.OnDelivered != outbox.Keep && !canBeID(id.typ) {
		return nil, fmt.Errorf("%w: table %s: column %s, the id, is of type %s, by which rows cannot be found again: use text, BINARY(16) or a whole number",
			source.ErrStop, t, conf.Columns.ID, id.full)
	}
	t.id, t.sql = idTypeOf(id, conf.Columns.ID), tableName(&t.Table)
	if t.Words == (outbox.Words{}) {
		t.Words = outbox.DefaultWords()
	}
	t.dropMissing()
	if col := t.column(t.Columns.Status); col != nil {
		if faults := wordFaults(&t.Table, col.typ, col.declared, col.length); len(faults) > 0 {
			return nil, fmt.Errorf("%w: table %s: %s", source.ErrStop, t, strings.Join(faults, "; "))
		}
	}
	t.view = store.TableView{OnDelivered: t.OnDelivered, Words: t.Words, HasStatus: t.column(t.Columns.Status) != nil,
		View: t.OnDelivered != outbox.Keep && t.Columns.Status != "", Viewable: t.viewable(), Updatable: t.updatable(),
		Receipts: conf.Columns.Receipt != ""}
	if c := t.column(conf.Columns.Receipt); t.view.Receipts && (c == nil || !strings.HasSuffix(c.typ, "text") && !strings.HasSuffix(c.typ, "char")) {
		return nil, fmt.Errorf("%w: table %s has no column %q of type TEXT for receipts: ALTER TABLE %s ADD COLUMN %s TEXT, or correct columns.receipt",
			source.ErrStop, t, conf.Columns.Receipt, t.sql, quoteIdent(conf.Columns.Receipt))
	}
	return t, t.findIndexes(ctx, s)
}

// findIndexes finds the index by which rows are looked up. Without one each statement would read, and lock, all rows, and
// wait for those that are being written.
func (t *table) findIndexes(ctx context.Context, s *relaySession) error {
	says := t.Columns.Status
	if says == "" {
		says = t.Columns.DeliveredAt
	}
	hidden := ""
	b := s.batch()
	b.each(func(r row) error {
		switch name, column := quoteIdent(r.text(0)), r.text(1); {
		case r.bool(2):
			if strings.EqualFold(column, t.Columns.ID) && hidden == "" {
				hidden = name
			}
		case strings.EqualFold(column, t.Columns.ID) && t.index == "":
			t.index = name
		case strings.EqualFold(column, says) && t.pendingIndex == "":
			t.pendingIndex = name
		}
		return nil
	}, indexesQuery+hiddenIndex(s.sess.server)+indexesFrom, t.Schema, t.Name)
	if err := s.send(ctx, b); err != nil {
		return storeFault("look up indexes of table "+t.Name, err)
	}
	if t.index == "" && hidden != "" {
		return fmt.Errorf("%w: table %s has no index on the message's id but %s, which is hidden from queries: %s", source.ErrStop, t, hidden,
			showIndex(s.sess.server, t.sql, hidden))
	}
	if t.index != "" {
		return nil
	}
	there := false
	b = s.batch()
	b.each(func(row) error { there = true; return nil }, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", t.Schema, t.Name)
	if err := s.send(ctx, b); err != nil {
		return storeFault("look up table "+t.Name, err)
	}
	if !there { // it was renamed since its columns were read
		return fmt.Errorf("%w: table %s does not exist any more", source.ErrNoTable, t)
	}
	return fmt.Errorf("%w: table %s has no index on the message's id: ALTER TABLE %s ADD UNIQUE (%s)", source.ErrStop, t, t.sql,
		quoteIdent(t.Columns.ID))
}

// dropMissing forgets the columns of the shape that this table has not, of those that only the relay writes: it does
// without them.
func (t *table) dropMissing() {
	c := &t.Columns
	for _, name := range []*string{&c.Status, &c.Attempts, &c.LastAttemptAt, &c.NextAttemptAt, &c.LastError, &c.DeliveredAt,
		&c.CreatedAt, &c.Seq, &c.Failures, &c.UpdatedAt} {
		if t.column(*name) == nil {
			*name = ""
		}
	}
}

// column finds a column; nil where there is none.
func (t *table) column(name string) *tableColumnType {
	if name == "" {
		return nil
	}
	return t.columns[strings.ToLower(name)]
}

// col is the quoted name of a configured column that the table has; "" if it has none.
func (t *table) col(name string) string {
	if t.column(name) == nil {
		return ""
	}
	return quoteIdent(name)
}

// updatable tells whether the table has a column that an update would set, viewable whether one of them shows the state of
// parked deliveries.
func (t *table) updatable() bool {
	return t.viewable() || t.col(t.Columns.DeliveredAt) != "" || t.col(t.Columns.Receipt) != ""
}

func (t *table) viewable() bool {
	if t.OnDelivered == outbox.Keep {
		return false
	}
	for _, name := range []string{t.Columns.Status, t.Columns.Attempts, t.Columns.Failures, t.Columns.NextAttemptAt, t.Columns.LastError} {
		if t.col(name) != "" {
			return true
		}
	}
	return false
}

// pending is the condition by which a row of alias t waits for its first delivery; "TRUE" where no column tells. A status
// that is NULL counts, unless delivered_at is set.
func (t *table) pending() string {
	c := &t.Columns
	switch {
	case c.Status != "" && t.column(c.Status).required:
		return columns.IsPending(&t.Table, "t."+quoteIdent(c.Status), quoteLiteral) + t.ours()
	case c.Status != "":
		ref := "t." + quoteIdent(c.Status)
		null := ref + " IS NULL"
		if delivered := t.col(c.DeliveredAt); delivered != "" {
			null += " AND t." + delivered + " IS NULL"
		}
		return "(" + columns.IsPending(&t.Table, ref, quoteLiteral) + " OR " + null + ")" + t.ours()
	case c.DeliveredAt != "":
		return "t." + quoteIdent(c.DeliveredAt) + " IS NULL" + t.ours()
	}
	return "TRUE" + t.ours()
}
