package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

// refusals looks for what would refuse that the relay deletes or marks rows, and so stop it later: keys that refer to them, triggers,
// constraints and indexes.
func (c *checker) refusals(ctx context.Context, t *catalog.Table) error {
	at, err := c.resolve(ctx, t)
	if err != nil || at == nil {
		return err
	}
	deletes := t.OnDelivered == outbox.Delete || t.OnDelivered == outbox.Mark && t.Retention > 0
	if deletes {
		if err := c.references(ctx, t); err != nil {
			return err
		}
	}
	if err := c.movedRows(ctx, at); err != nil {
		return err
	}
	m := marks{info: t, table: at, samples: at.View.Samples(time.Now()), writes: at.Writes()}
	if err := c.triggers(ctx, t, deletes, m.writes); err != nil || len(m.writes) == 0 {
		return err
	}
	if err := c.constraints(ctx, &m); err != nil {
		return err
	}
	return c.uniqueMarks(ctx, &m)
}

// references finds foreign keys by which a row that is referred to cannot be deleted. Those of partitions are copies of their table's.
func (c *checker) references(ctx context.Context, t *catalog.Table) error {
	var from, name string
	rows, err := c.conn.Query(ctx, `SELECT conrelid::regclass::text, quote_ident(conname) FROM pg_constraint c WHERE contype = 'f' AND confrelid = ANY ($1)
		AND conparentid = 0 AND confdeltype IN ('a', 'r') AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY 1, 2`,
		t.OIDs())
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&from, &name}, func() error {
		c.add(check.Problem, "ALTER TABLE "+from+" DROP CONSTRAINT "+name+", or give it ON DELETE CASCADE",
			"rows of table %s refer to table %s by the FOREIGN KEY %s: a row that is referred to cannot be deleted", from, t, name)
		return nil
	})
	return err
}

// triggers names those that are called for what the relay does: deletions, and updates of the columns.
func (c *checker) triggers(ctx context.Context, t *catalog.Table, deletes bool, columns []string) error {
	// Of tgtype, 1 is FOR EACH ROW, 2 BEFORE, 8 DELETE and 16 UPDATE; tgattr is what UPDATE OF names.
	rows, err := c.conn.Query(ctx, `SELECT DISTINCT quote_ident(tgname), tgtype & 3 = 3, CASE WHEN tgtype & 2 = 2 THEN 'BEFORE ' ELSE 'AFTER ' END
			|| concat_ws(' OR ', CASE WHEN tgtype & 8 = 8 THEN 'DELETE' END, CASE WHEN tgtype & 16 = 16 THEN 'UPDATE' END)
		FROM pg_trigger WHERE tgrelid = ANY ($1) AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND (tgtype & 8 = 8 AND $2 OR tgtype & 16 = 16 AND $3::text[] <> '{}'
			AND (tgattr = '' OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = tgrelid AND attnum = ANY (tgattr) AND attname = ANY ($3)))) ORDER BY 1`,
		t.OIDs(), deletes, columns)
	if err != nil {
		return err
	}
	var name, when string
	var suppresses bool
	_, err = pgx.ForEachRow(rows, []any{&name, &suppresses, &when}, func() error {
		what := "where it refuses what on_delivered does, the relay stops"
		if suppresses {
			what += "; where it suppresses that, rows are delivered again by each reconciliation"
		}
		c.add(check.Warning, "let it take what the relay does, or drop it", "table %s has the trigger %s, %s: %s", t, name, when, what)
		return nil
	})
	return err
}

// marks are what the relay writes to rows of a table: one change of each kind, and the columns' names.
type marks struct {
	info    *catalog.Table
	table   *usertable.Table
	samples []store.Sample
	writes  []string
}

// written counts the columns that marks write.
func (m *marks) written(columns []string) (n int) {
	for _, name := range columns {
		if slices.Contains(m.writes, name) {
			n++
		}
	}
	return n
}

// after tells whether a condition is true of the row that a mark leaves, of which the columns that marks do not write are NULL. The server
// judges it; nothing is read or written.
func (m *marks) after(ctx context.Context, conn *pgx.Conn, sample *store.Sample, condition string) (is bool, err error) {
	to := map[string]string{}
	for _, s := range m.table.Sets() {
		to[s.Column] = s.To
	}
	var before, after []string
	for name, base := range m.table.Bases { // a domain may not take NULL
		name = sqltext.Ident(name)
		value, ok := to[name]
		if !ok {
			value = "t." + name
		}
		before, after = append(before, "NULL::"+base+" AS "+name), append(after, value+" AS "+name)
	}
	r := &sample.Change
	err = conn.QueryRow(ctx, "SELECT "+condition+" FROM (SELECT "+strings.Join(after, ", ")+" FROM (SELECT "+strings.Join(before, ", ")+") t, "+
		"(VALUES ($1::text, $2::int, $3::int, $4::timestamptz, $5::text, $6::bool, $7::text)) v (word, attempts, failures, next, err, delivered, receipt)) marked",
		r.Word, int32(r.Attempts), int32(r.Failures), pgstore.NextAttempt(r.Next), r.Err, r.Delivered, r.Receipt).Scan(&is)
	return is, err
}

// constraints finds CHECK constraints that refuse a mark.
func (c *checker) constraints(ctx context.Context, m *marks) error {
	type constraint struct {
		name, condition string
		columns         []string
	}
	rows, err := c.conn.Query(ctx, `SELECT quote_ident(conname), pg_get_expr(conbin, conrelid), ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey))
		FROM pg_constraint c WHERE contype = 'c' AND conrelid = $1 AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY 1`, m.info.OID)
	if err != nil {
		return err
	}
	checks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k constraint, err error) {
		return k, row.Scan(&k.name, &k.condition, &k.columns)
	})
	if err != nil {
		return err
	}
	const cure = "let the constraint take it, or correct source.tables (words, columns)"
	for _, k := range checks {
		written := m.written(k.columns)
		for i := 0; written > 0 && i < len(m.samples); i++ {
			state := m.samples[i].State
			takes, err := m.after(ctx, c.conn, &m.samples[i], "("+k.condition+") IS NOT FALSE")
			var refused *pgconn.PgError
			switch {
			case errors.As(err, &refused):
				c.add(check.Warning, cure, "table %s has the CHECK constraint %s on %s, which the relay writes: whether it takes that could not be tried: %s",
					m.info, k.name, strings.Join(k.columns, ", "), refused.Message)
			case err != nil:
				return err
			case takes:
				continue
			case written < len(k.columns):
				c.add(check.Warning, cure, "table %s has the CHECK constraint %s, which may refuse what the relay writes to the row of a %s message: %s", m.info, k.name, state, k.condition)
			default:
				c.add(check.Problem, cure, "table %s has the CHECK constraint %s, which refuses what the relay writes to the row of a %s message: %s", m.info, k.name, state, k.condition)
			}
			break
		}
	}
	return nil
}

// uniqueMarks finds unique indexes on nothing but columns that marks write: rows that are marked at once have the same there.
func (c *checker) uniqueMarks(ctx context.Context, m *marks) error {
	type index struct {
		name, schema, condition string
		alike                   bool // NULLs are alike, too
		columns                 []string
	}
	rows, err := c.conn.Query(ctx, `SELECT quote_ident(x.relname), quote_ident(x.relnamespace::regnamespace::text), coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'),
			coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false')::bool,
			ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (num, n) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
				WHERE k.n <= i.indnkeyatts ORDER BY k.n)
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = $1 AND i.indisunique AND i.indisready AND 0 <> ALL (i.indkey::int2[]) ORDER BY 1`, m.info.OID)
	if err != nil {
		return err
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x index, err error) {
		return x, row.Scan(&x.name, &x.schema, &x.condition, &x.alike, &x.columns)
	})
	if err != nil {
		return err
	}
	for _, x := range indexes {
		condition := "(" + x.condition + ") IS TRUE"
		for _, name := range x.columns {
			if !x.alike {
				condition += " AND " + sqltext.Ident(name) + " IS NOT NULL"
			}
		}
		for i := 0; m.written(x.columns) == len(x.columns) && i < len(m.samples); i++ {
			both, err := m.after(ctx, c.conn, &m.samples[i], condition)
			if err != nil {
				return fmt.Errorf("try index %s: %w", x.name, err)
			}
			if both {
				c.add(check.Problem, "DROP INDEX "+x.schema+"."+x.name, "table %s has the unique index %s on %s, in which the rows of two %s messages would be alike",
					m.info, x.name, strings.Join(x.columns, ", "), m.samples[i].State)
				break
			}
		}
	}
	return nil
}
