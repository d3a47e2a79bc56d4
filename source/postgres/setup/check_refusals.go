package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

// refusals looks for foreign keys, triggers, constraints and indexes that would reject the relay's deletes or updates, and so stop it later.
func (c *checker) refusals(ctx context.Context, t *catalog.Table) error {
	at, err := c.resolve(ctx, t)
	if err != nil || at == nil {
		return err
	}
	deletes := prepare.Deletes(&t.Table)
	if deletes {
		if err := c.references(ctx, t); err != nil {
			return err
		}
	}
	if err := c.movedRows(ctx, at); err != nil {
		return err
	}
	m := marks{info: t, table: at, samples: at.View.Samples(time.Now()), writes: at.Writes()}
	for _, name := range m.writes {
		if column, ok := t.Column(name); ok && column.Generated {
			c.Add(check.Problem, "name a column under source.tables.columns that can be written, or null", "column %s of table %s is generated, so the relay cannot write it", name, t)
		}
	}
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
		c.Add(check.Problem, "ALTER TABLE "+from+" DROP CONSTRAINT "+name+", or give it ON DELETE CASCADE",
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
		what := "if it refuses what on_delivered does to eight rows in a row, tailbox stops"
		if suppresses {
			what += "; if it suppresses that, each reconciliation delivers the rows again"
		}
		c.Add(check.Warning, "let it take what the relay does, or drop it", "table %s has the trigger %s, %s: %s", t, name, when, what)
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

// after reports whether a condition is true of a row after a mark. Columns that marks do not write are NULL in it. The server evaluates the condition
// on constants: nothing is read or written.
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
		"(VALUES ($1::text, $2::int, $3::int, $4::timestamptz, $5::text, $6::bool, $7::text)) v (state, attempts, failures, next, err, delivered, receipt)) marked",
		r.State, int32(r.Attempts), int32(r.Failures), pgstore.NextAttempt(r.Next), r.Err, r.Delivered, r.Receipt).Scan(&is)
	return is, err
}

// constraints finds CHECK constraints that refuse a mark.
func (c *checker) constraints(ctx context.Context, m *marks) error {
	rows, err := c.conn.Query(ctx, `SELECT quote_ident(conname), pg_get_expr(conbin, conrelid), ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey))
		FROM pg_constraint c WHERE contype = 'c' AND conrelid = $1 AND to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY 1`, m.info.OID)
	if err != nil {
		return err
	}
	checks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k prepare.Constraint, err error) {
		return k, row.Scan(&k.Name, &k.Condition, &k.Columns)
	})
	if err != nil {
		return err
	}
	for i := range checks {
		k := &checks[i]
		written := m.written(k.Columns)
		if k.Unsure = written < len(k.Columns); written == 0 {
			continue
		}
		err := c.Constraint(&m.info.Table, m.samples, k, func(s *store.Sample) (takes bool, refusal string, err error) {
			takes, err = m.after(ctx, c.conn, s, "("+k.Condition+") IS NOT FALSE")
			if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
				return false, pe.Message, nil
			}
			return takes, "", err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// uniqueMarks finds unique indexes that cover only columns that marks write: rows that are marked together would get the same values in them.
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
		if m.written(x.columns) < len(x.columns) {
			continue
		}
		err := c.UniqueIndex(&m.info.Table, m.samples, x.name, "DROP INDEX "+x.schema+"."+x.name, x.columns, func(s *store.Sample) (bool, error) {
			return m.after(ctx, c.conn, s, condition)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
