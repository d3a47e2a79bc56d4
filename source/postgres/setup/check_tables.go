package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

// outboxTables looks at the tables that applications write to.
func (c *checker) outboxTables(ctx context.Context) error {
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := catalog.Describe(ctx, c.conn.PgConn(), t)
		switch {
		case c.hidden(t.Schema, err):
			continue
		case errors.Is(err, source.ErrStop):
			beside, err := tablesBeside(ctx, c.conn, t)
			if err != nil {
				return err
			}
			c.Absent(t, "table "+sqltext.Table(t), ddl.OwnShape(t.Shape), beside, c.cfg.Tables)
			continue
		case err != nil:
			return err
		}
		c.tables = append(c.tables, info)
		for _, look := range []func(context.Context, *catalog.Table) error{c.kindOfTable, c.columns, c.unswept, c.statuses, c.tableRights, c.indexes, c.refusals, c.feedback} {
			if err := look(ctx, info); err != nil {
				return fmt.Errorf("table %s: %w", info, err)
			}
		}
	}
	return nil
}

// kindOfTable checks whether a table's rows are in the log, and whether anything hides them.
func (c *checker) kindOfTable(ctx context.Context, t *catalog.Table) error {
	var kind string
	var security bool
	err := c.conn.QueryRow(ctx, "SELECT relkind::text, row_security_active(oid) FROM pg_class WHERE oid = $1", t.OID).Scan(&kind, &security)
	if err != nil {
		return err
	}
	name := sqltext.Table(&t.Table)
	switch {
	case kind != "r" && kind != "p":
		c.Add(check.Problem, "name the table itself in source.tables", "%s is no table", t)
	case !t.Permanent && c.cfg.Poll:
		c.Add(check.Warning, "ALTER TABLE "+name+" SET LOGGED", "table %s is unlogged or temporary, so a crash of the server empties it", t)
	case !t.Permanent:
		c.Add(check.Problem, "ALTER TABLE "+name+" SET LOGGED", "table %s is unlogged or temporary, so it is not in the log", t)
	}
	if security {
		c.Add(check.Problem, "ALTER ROLE "+sqltext.Ident(c.role)+" BYPASSRLS", "row-level security hides rows of table %s from the relay", t)
	}
	return nil
}

// columns looks for columns that messages are made of, or that are written.
func (c *checker) columns(ctx context.Context, t *catalog.Table) error {
	if _, err := catalog.NewPlan(&t.Table, t.PlainColumns()); err != nil {
		c.Add(check.Problem, "add the column, or correct columns under source.tables", "%v", err)
	}
	if err := t.Unfound(); err != nil {
		c.Add(check.Problem, "correct columns under source.tables", "%v", err)
	}
	if !c.cfg.Poll {
		published, err := catalog.ReadPublished(ctx, &c.cfg, c.conn.PgConn())
		if err != nil {
			return err
		}
		for _, name := range t.Generated(published) {
			c.Add(check.Problem, "name a stored column under source.tables.columns"+catalog.GeneratedFix, "column %s of table %s is generated, and the log does not hold it", name, t)
		}
	}
	names := make([]string, len(t.Cols))
	for i := range t.Cols {
		names[i] = t.Cols[i].Name
	}
	columns.OtherCase(&t.Table, names, func(key, name, near string, named bool) {
		level := check.Warning
		if named {
			level = check.Problem
		}
		if key != "id" && key != "payload" {
			c.Add(level, "set columns."+key+" to "+near+", or to null", "table %s has no column %s, but %s", t, name, near)
		}
	})
	cols := &t.Columns
	if _, ok := t.Column(cols.Receipt); !ok && cols.Receipt != "" {
		c.Add(check.Problem, "ALTER TABLE "+sqltext.Table(&t.Table)+" ADD COLUMN "+sqltext.Ident(cols.Receipt)+" text, or correct source.tables.columns",
			"table %s has no column %s for receipts", t, cols.Receipt)
	}
	has := func(name string) bool { _, ok := t.Column(name); return ok }
	c.Retained(&t.Table, has, "timestamptz")
	if len(t.Tenants) > 0 && !has(cols.Tenant) {
		c.Add(check.Problem, "name the column under source.tables.columns.tenant", "table %s has tenants, but no column for them", t)
	}
	c.Markable(&t.Table, has)
	timestamps := []catalog.Kind{catalog.KindTimestamp, catalog.KindTimestamptz}
	for _, want := range []struct {
		name  string
		kinds []catalog.Kind
		what  string
	}{
		{cols.Attempts, []catalog.Kind{catalog.KindInt2, catalog.KindInt4, catalog.KindInt8}, "an integer"}, {cols.Failures, []catalog.Kind{catalog.KindInt2, catalog.KindInt4, catalog.KindInt8}, "an integer"},
		{cols.UpdatedAt, timestamps, "a timestamp"}, {cols.LastAttemptAt, timestamps, "a timestamp"},
		{cols.NextAttemptAt, timestamps, "a timestamp"}, {cols.DeliveredAt, timestamps, "a timestamp"}, {cols.LastError, []catalog.Kind{catalog.KindText}, "text"},
		{cols.Receipt, []catalog.Kind{catalog.KindText}, "text"},
		{cols.Priority, []catalog.Kind{catalog.KindInt2, catalog.KindInt4, catalog.KindInt8}, "an integer"}, {cols.AvailableAt, timestamps, "a timestamp"},
		{cols.CreatedAt, timestamps, "a timestamp"}, {cols.Headers, []catalog.Kind{catalog.KindJSONB, catalog.KindText, catalog.KindBytea}, "jsonb, json, text or bytea"},
		{cols.Payload, []catalog.Kind{catalog.KindText, catalog.KindBytea, catalog.KindJSONB, catalog.KindBpchar}, "bytea, jsonb, json or text"},
	} {
		if col, ok := t.Column(want.name); ok && want.name != "" && !slices.Contains(want.kinds, col.Kind) {
			alter := "ALTER TABLE " + sqltext.Table(&t.Table) + " ALTER COLUMN " + sqltext.Ident(want.name) + " TYPE "
			what, fix := "is not "+want.what, alter+"…, or correct source.tables.columns"
			if col.Kind == catalog.KindOID && slices.Contains(want.kinds, catalog.KindBytea) {
				what = "is an oid, a reference to a large object, whose content is not in the log"
				fix = alter + "bytea USING lo_get(" + sqltext.Ident(want.name) + "), and map the field as bytea in the application"
			} else if found, err := c.typeOf(ctx, t, want.name); err != nil {
				return err
			} else {
				what += ": its type is " + found
			}
			if want.name == cols.Headers && col.Kind == catalog.KindOther {
				fix = "let a trigger make a JSON object of it: docs/tables.md, \"Headers in another form\""
			}
			if key := columns.Dispensable(&t.Table, want.name); key != "" {
				fix = "leave it out (columns: {" + key + ": null}), or " + fix
			}
			c.Add(check.Problem, fix, "column %s of table %s %s", want.name, t, what)
		}
	}
	return c.words(ctx, t)
}

// unswept tells of a table whose rows could not be found again after the slot was lost.
func (c *checker) unswept(_ context.Context, t *catalog.Table) error {
	if !c.cfg.Poll {
		c.Note(check.Unswept(&t.Table, t.Pending("t") != ""))
	}
	return nil
}

// statuses looks for rows that are neither delivered nor pending.
func (c *checker) statuses(ctx context.Context, t *catalog.Table) error {
	if _, ok := t.Column(t.Columns.Status); !ok {
		return nil
	}
	return c.Statuses(ctx, &t.Table, c.hasCheckpoint, func(ctx context.Context) (counts []check.StatusCount, err error) {
		rows, err := c.conn.Query(ctx, fmt.Sprintf("SELECT word, count(*) FROM (SELECT %[1]s::text AS word FROM %[2]s t WHERE %[1]s <> %[3]s%[4]s LIMIT %[5]d) n GROUP BY word",
			sqltext.Ident(t.Columns.Status), sqltext.Table(&t.Table), sqltext.Literal(t.Words.Delivered), catalog.Ours(&t.Table, "t."), check.Limit))
		if err == nil {
			counts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[check.StatusCount])
		}
		if cannotLook(err) {
			return nil, nil
		}
		return counts, err
	}, func(ctx context.Context) (parked bool, err error) {
		err = c.conn.QueryRow(ctx, c.state.SQL("SELECT EXISTS (SELECT FROM {parked} WHERE pipeline = $1 AND source_table = $2)"), c.cfg.Pipeline, t.String()).
			Scan(&parked)
		return parked, err
	})
}

// words checks whether the status column can hold the configured words.
func (c *checker) words(ctx context.Context, t *catalog.Table) error {
	if _, ok := t.Column(t.Columns.Status); !ok || t.Columns.Status == "" {
		return nil
	}
	columnType, err := c.typeOf(ctx, t, t.Columns.Status)
	if err != nil {
		return err
	}
	faults, err := usertable.WordFaults(ctx, c.conn, &t.Table, columnType)
	c.Words(&t.Table, faults)
	return err
}

// typeOf reads the name of a column's type, with its length.
func (c *checker) typeOf(ctx context.Context, t *catalog.Table, column string) (name string, err error) {
	err = c.conn.QueryRow(ctx, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1 AND attname = $2 AND NOT attisdropped", t.OID, column).Scan(&name)
	return name, err
}

// tableRights looks for what on_delivered needs.
func (c *checker) tableRights(ctx context.Context, t *catalog.Table) error {
	marks := slices.DeleteFunc(ddl.MarkColumns(&t.Table), func(name string) bool { _, ok := t.Column(name); return !ok })
	_, err := c.privileges(ctx, sqltext.Table(&t.Table), marks, ddl.Privileges(&t.Table)...)
	return err
}

// indexes looks for the ones that every settlement, and every reconciliation, goes by.
func (c *checker) indexes(ctx context.Context, t *catalog.Table) error {
	name, id := sqltext.Table(&t.Table), sqltext.Ident(t.Columns.ID)
	var unique, any, pending, required bool
	var rows float64
	status := t.Columns.Status
	if status == "" {
		status = t.Columns.DeliveredAt
	}
	err := c.conn.QueryRow(ctx, `SELECT coalesce(bool_or(i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL), false), count(i.*) > 0,
		coalesce(bool_or(a.attnotnull OR t.typnotnull), true),
		`+strings.TrimPrefix(strings.TrimSpace(usertable.PendingIndexQuery), "SELECT")+`, (SELECT coalesce(sum(greatest(reltuples, 0)), 0) FROM pg_class WHERE oid = $1::text::regclass)
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisvalid AND i.indkey[0] = a.attnum
		WHERE a.attrelid = $1::text::regclass AND a.attname = $3 AND NOT a.attisdropped`, name, status, t.Columns.ID).Scan(&unique, &any, &required, &pending, &rows)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // no such column: found already
	}
	if err != nil {
		return err
	}
	if !required {
		c.Add(check.Warning, "ALTER TABLE "+name+" ALTER COLUMN "+id+" SET NOT NULL", "column %s of table %s may be NULL: a row without an id is not delivered, "+
			"it is parked as undecodable, and its group waits", t.Columns.ID, t)
	}
	switch {
	case !any && t.OnDelivered != outbox.Keep:
		index := "CREATE UNIQUE INDEX ON "
		if t.Partitioned { // on which a unique index needs the columns of the partition key, too
			index = "CREATE INDEX ON "
		}
		c.Add(check.Warning, index+name+" ("+id+")", "table %s has no index that begins with %s: every delivered message reads all of it", t, t.Columns.ID)
	case !unique && !t.Partitioned:
		c.Add(check.Warning, check.MakeUnique("CREATE UNIQUE INDEX ON "+name+" ("+id+")"), "column %s of table %s is not unique: rows with the same id are one message", t.Columns.ID, t)
	}
	if !unique {
		if err := c.sharedIDs(ctx, t); err != nil {
			return err
		}
	}
	if t.OnDelivered != outbox.Keep && status != "" && !pending && rows > 1e6 {
		c.Add(check.Warning, "CREATE INDEX ON "+name+" ("+id+") WHERE "+catalog.Pending(&t.Table, ""),
			"table %s has %.0f rows and no index on the pending ones: every reconciliation reads all of it", t, rows)
	}
	return nil
}

// sharedIDs looks for rows with one id.
func (c *checker) sharedIDs(ctx context.Context, t *catalog.Table) error {
	if _, ok := t.Column(t.Columns.ID); !ok {
		return nil
	}
	var shared bool
	err := c.conn.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM (SELECT %[1]s::text AS id FROM %[2]s WHERE %[1]s IS NOT NULL LIMIT %[3]d) r GROUP BY id HAVING count(*) > 1)",
		sqltext.Ident(t.Columns.ID), sqltext.Table(&t.Table), check.SharedLimit)).Scan(&shared)
	if cannotLook(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if shared {
		c.Note(check.SharedIDs(&t.Table))
	}
	return nil
}

// cannotLook reports whether a look at the rows failed for a reason that says nothing of them: a right was found missing already, or it takes too long.
func cannotLook(err error) bool {
	return slices.Contains([]string{"42501", "57014", pgerr.LockNotAvailable}, pgerr.State(err))
}

// movedRows checks whether marks would move rows of the table to another partition. If the table is polled, that does no harm: the row keeps its
// number.
func (c *checker) movedRows(ctx context.Context, t *usertable.Table) error {
	if c.cfg.Poll {
		return nil
	}
	u, err := t.Moved(ctx, c.conn)
	if u != nil {
		c.Add(check.Problem, u.Fix, "%s", u.What)
	}
	return err
}

// resolve returns the table as the relay will see it; nil if the relay will refuse it. check reports the reason, here or elsewhere.
func (c *checker) resolve(ctx context.Context, info *catalog.Table) (*usertable.Table, error) {
	t, err := usertable.Resolve(ctx, c.conn, info.Table)
	if u := (*store.UnsupportedError)(nil); errors.As(err, &u) {
		c.Add(check.Problem, u.Fix, "%s", u.What)
	}
	if errors.Is(err, source.ErrStop) {
		return nil, nil
	}
	return t, err
}
