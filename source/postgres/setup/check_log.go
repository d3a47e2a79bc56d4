package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/check"
)

// publication checks whether the publication sends the inserts into all tables, and whether it leaves out columns or rows.
func (c *checker) publication(ctx context.Context) error {
	p, err := c.readPublication(ctx)
	if err != nil {
		return err
	}
	if p == nil {
		c.Add(check.Problem, "run tailbox init", "publication %s does not exist", c.cfg.Publication)
		return nil
	}
	c.checkPublicationOptions(p)
	pub := sqltext.Ident(c.cfg.Publication)
	if p.all {
		c.Add(check.Warning, "CREATE PUBLICATION … FOR TABLE …, and name it in source.publication", "publication %s is for all tables: all changes of the database are sent", c.cfg.Publication)
	} else if p.changes {
		c.Add(check.Warning, "ALTER PUBLICATION "+pub+" SET (publish = 'insert')",
			"publication %s publishes updates or deletes: tailbox does not use them, and an UPDATE fails if the replica identity lacks a column of the row filter", c.cfg.Publication)
	}
	published, err := catalog.ReadPublished(ctx, &c.cfg, c.conn.PgConn())
	if err != nil {
		return err
	}
	for _, t := range c.tables {
		for _, child := range t.Unpublished(published) {
			what, fix := catalog.UnpublishedChild(&c.cfg, t, child)
			c.Add(check.Problem, fix, "%s", what)
		}
		if !t.IsTable || t.Partitioned && !p.viaRoot {
			continue // found already
		}
		if err := c.publishedTable(ctx, t, pub); err != nil {
			return err
		}
	}
	return nil
}

// A publicationState tells what a publication sends: all tables; inserts; updates or deletes; rows of partitions as their table's.
type publicationState struct{ all, insert, changes, viaRoot bool }

// readPublication returns nil where there is none.
func (c *checker) readPublication(ctx context.Context) (*publicationState, error) {
	p := &publicationState{}
	err := c.conn.QueryRow(ctx, "SELECT puballtables, pubinsert, pubupdate OR pubdelete, pubviaroot FROM pg_publication WHERE pubname = $1", c.cfg.Publication).
		Scan(&p.all, &p.insert, &p.changes, &p.viaRoot)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return p, err
}

// checkExistingPublication checks the options of a publication that exists: init does not change them.
func (c *checker) checkExistingPublication(ctx context.Context) error {
	p, err := c.readPublication(ctx)
	if err == nil && p != nil {
		c.checkPublicationOptions(p)
	}
	return err
}

// checkPublicationOptions adds a problem for each option of the publication that is wrong.
func (c *checker) checkPublicationOptions(p *publicationState) {
	pub := sqltext.Ident(c.cfg.Publication)
	if !p.insert {
		c.Add(check.Problem, "ALTER PUBLICATION "+pub+" SET (publish = 'insert')", "publication %s does not publish inserts", c.cfg.Publication)
	}
	for _, t := range c.tables {
		if t.Partitioned && !p.viaRoot {
			c.Add(check.Problem, "ALTER PUBLICATION "+pub+" SET (publish_via_partition_root = true)", "publication %s publishes the partitions of %s as tables of their own", c.cfg.Publication, t)
		}
	}
}

// publishedTable looks for a table in the publication, and for filters.
func (c *checker) publishedTable(ctx context.Context, t *catalog.Table, pub string) error {
	details := "to_jsonb(p) ->> 'rowfilter', to_jsonb(p) -> 'attnames'" // as JSON: 14 has neither
	var filter *string
	var listed []string
	err := c.conn.QueryRow(ctx, "SELECT "+details+" FROM pg_publication_tables p WHERE pubname = $1 AND schemaname = $2 AND tablename = $3",
		c.cfg.Publication, t.Schema, t.Name).Scan(&filter, &listed)
	if errors.Is(err, pgx.ErrNoRows) {
		c.Add(check.Problem, "ALTER PUBLICATION "+pub+" ADD TABLE "+sqltext.Table(&t.Table)+", or tailbox init", "publication %s does not hold table %s", c.cfg.Publication, t)
		return nil
	}
	if err != nil {
		return err
	}
	if filter != nil && *filter != "" {
		c.Add(check.Warning, "", "publication %s sends only rows of %s where %s: others are not delivered from the log", c.cfg.Publication, t, *filter)
	}
	var missing []string
	for _, name := range columns.Configured(&t.Table) {
		if col, ok := t.Column(name); ok && !col.Generated && listed != nil && !slices.Contains(listed, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		c.Add(check.Problem, "ALTER PUBLICATION "+pub+" SET TABLE … without a column list, or with these columns", "publication %s leaves out columns %s of table %s",
			c.cfg.Publication, strings.Join(missing, ", "), t)
	}
	return nil
}

// slot looks at the slot or, where there is none yet, at what would hold up its creation.
func (c *checker) slot(ctx context.Context) error {
	if c.recovery { // the primary's slot counts; the one here belongs to whoever synchronises it
		return nil
	}
	s, err := upstream.Find(ctx, &c.cfg, c.conn.PgConn())
	if err != nil {
		return err
	}
	have, err := c.hasCheckpoint(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		if have { // FindGap reports that the checkpoint's slot is gone
			return c.oldTransactions(ctx)
		}
		c.Add(check.Info, "run tailbox init", "slot %s does not exist yet: what is committed before it is made does not come from the log", c.cfg.Slot)
		return c.oldTransactions(ctx)
	}
	if c.blind { // only the relay's tables would say whose slot it is
		return nil
	}
	o, err := pgstore.SlotClaims{Cfg: &c.cfg, State: c.state}.Of(ctx, c.conn, s)
	if err != nil {
		return err
	}
	if o.Refused != "" {
		c.Add(check.Problem, o.Fix, "slot %s %s", c.cfg.Slot, o.Refused)
		return nil
	}
	if !have && (s.InvalidationReason != "" || s.WALStatus == "lost" || s.Conflicting) {
		c.Add(check.Warning, "run tailbox run: it makes the slot anew and sweeps the tables", "slot %s is lost (%s)", c.cfg.Slot, orText(s.InvalidationReason, s.WALStatus))
	}
	if s.Active {
		return c.reader(ctx, s.ActivePID)
	}
	return nil
}

// reader finds out who reads the slot.
func (c *checker) reader(ctx context.Context, pid int) error {
	var app string
	err := c.conn.QueryRow(ctx, "SELECT coalesce(application_name, '') FROM pg_stat_activity WHERE pid = $1", pid).Scan(&app)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return err
	case app == session.AppName(c.cfg.Pipeline):
		c.Add(check.Info, "", "a relay of this pipeline is running (PID %d)", pid)
	default:
		c.Add(check.Problem, "stop that reader, or choose another source.slot", "slot %s is read by %q (PID %d)", c.cfg.Slot, app, pid)
	}
	return nil
}

// oldTransactions names transactions that the creation of a slot would wait for.
func (c *checker) oldTransactions(ctx context.Context) error {
	rows, err := c.conn.Query(ctx, `SELECT 'PID ' || pid || ' (' || coalesce(application_name, '') || ', ' || coalesce(state, '?') || ', ' || extract(epoch FROM now() - xact_start)::int || ' s)'
		FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start < now() - interval '10 seconds' AND pid <> pg_backend_pid()
		UNION ALL SELECT 'prepared transaction ' || quote_literal(gid) FROM pg_prepared_xacts LIMIT 10`)
	if err != nil {
		return err
	}
	who, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(who) > 0 {
		c.Add(check.Warning, "end them: SELECT pg_terminate_backend(…), or ROLLBACK PREPARED", "the slot's creation waits for open transactions: %s", strings.Join(who, ", "))
	}
	return nil
}

// countLimit bounds how many rows are counted.
const countLimit = 10000

// firstStart tells what a first start would send, where no position was ever taken.
func (c *checker) firstStart(ctx context.Context) error {
	if have, err := c.hasCheckpoint(ctx); err != nil || have {
		return err
	}
	for _, t := range c.tables {
		if c.InvalidWords(&t.Table) {
			continue // found already
		}
		judged := t.Pending("t")
		where := judged
		if judged == "" {
			where = "true"
		}
		var n int
		err := c.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT FROM %s t WHERE %s LIMIT %d) n", sqltext.Table(&t.Table), where, countLimit+1)).Scan(&n)
		if pgerr.State(err) == "42501" {
			continue // found already
		}
		if err != nil {
			return err
		}
		many := fmt.Sprintf("%d rows", n)
		switch {
		case n == 1:
			many = "1 row"
		case n > countLimit:
			many = fmt.Sprintf("more than %d rows", countLimit)
		}
		switch {
		case n == 0:
		case judged != "" || c.cfg.Start == "pending":
			c.Add(check.Info, "", "the first start delivers what is in table %s now: %s", t, many)
		case c.cfg.Start == "now":
			f := check.LeftAlone(&t.Table, many)
			c.Note(&f)
		default:
			c.Add(check.Problem, "set source.start to pending (deliver them) or now (leave them out)", "table %s holds %s, and no column tells what was delivered", t, many)
		}
	}
	return nil
}

// orText is the first text that is not empty.
func orText(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
