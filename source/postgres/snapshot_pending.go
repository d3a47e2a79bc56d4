package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Pending implements source.Snapshot. Tables come in their configured order. The rows of one are ordered by the time
// of their commit, where the server keeps it (track_commit_timestamp), then by the sequence column, else by
// created_at; those of one transaction as it wrote them; transactions of which nothing else is known in the order in which they began to
// write.
func (s *tableSnapshot) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	p := store.Sweep{Log: log, Emit: emit}
	var commitTimes string
	err := s.conn.QueryRow(ctx, "SELECT pg_catalog.clock_timestamp(), current_setting('track_commit_timestamp')").Scan(&p.Now, &commitTimes)
	if err != nil {
		return fmt.Errorf("read the server's time: %w", err)
	}
	p.Now = p.Now.UTC()
	parked, err := s.parkedTable(ctx)
	if err != nil {
		return err
	}
	for _, sw := range s.sweeps {
		if err := s.pendingOf(ctx, sw, commitTimes == "on" && s.within == "", parked, &p); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// parkedTable is the quoted name of tailbox_parked if it has rows of this pipeline, else "".
func (s *tableSnapshot) parkedTable(ctx context.Context) (string, error) {
	var name *string
	own := outbox.Table{Schema: cmp.Or(s.cfg.Schema, rolePathOf(s.conn.PgConn()).schema()), Name: "tailbox_parked"}
	err := s.conn.QueryRow(ctx, "SELECT to_regclass($1)::text", quoteTable(&own)).Scan(&name)
	if err != nil || name == nil {
		return "", wrap("look up table tailbox_parked", err)
	}
	var found bool
	err = s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+*name+" WHERE pipeline = $1)", s.cfg.Pipeline).Scan(&found)
	if err != nil || !found {
		return "", wrap("look for parked deliveries", err)
	}
	return *name, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// pendingOf emits the rows of one table, as they come from the server.
func (s *tableSnapshot) pendingOf(ctx context.Context, sw sweep, commitTimes bool, parked string, p *store.Sweep) error {
	r := sw.rows
	sinks, join := "NULL::text", ""
	if parked != "" {
		// All states count: also of a delivery that was dropped or delivered, a row is kept until its message is settled.
		sinks = "p.sinks"
		join = " LEFT JOIN (SELECT message_id, string_agg(sink, ',') AS sinks FROM " + parked + " WHERE pipeline = " +
			quoteLiteral(s.cfg.Pipeline) + " AND source_table = " + quoteLiteral(r.table.String()) +
			" GROUP BY message_id) p ON p.message_id = " + r.id("t")
	}
	query := "SELECT " + r.list("t") + ", " + sinks + " FROM " + r.from() + " t" + join + " WHERE " + sw.where +
		" ORDER BY " + r.table.order("t", commitTimes)
	rows, err := s.conn.Query(ctx, query, r.formats(1))
	if err != nil {
		return fmt.Errorf("read pending rows of %s: %w", r.table, err)
	}
	defer rows.Close()
	for rows.Next() {
		m, err := r.message(rows)
		if err != nil {
			return err
		}
		var at []string
		if sinks := rows.RawValues()[r.width()]; sinks != nil {
			at = strings.Split(string(sinks), ",")
		}
		if err := p.Add(ctx, m, at); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read pending rows of %s: %w", r.table, unsendable(err))
	}
	return nil
}

// order is the ORDER BY of a sweep. A row whose commit time the server does not know any more is older than those it
// knows.
func (t *tableInfo) order(alias string, commitTimes bool) string {
	var by []string
	at := "pg_catalog.pg_xact_commit_timestamp(" + alias + ".xmin)"
	if commitTimes {
		by = append(by, at+" NULLS FIRST")
	}
	for _, name := range []string{t.Columns.Seq, t.Columns.CreatedAt} {
		if c, ok := t.column(name); ok && name != "" {
			by = append(by, alias+"."+quoteIdent(c.name))
			break
		}
	}
	// Rows of one transaction, or of a table without any of these: numbered ids tell the order.
	if c, ok := t.column(t.Columns.ID); ok && (c.kind == kindInt2 || c.kind == kindInt4 || c.kind == kindInt8) {
		by = append(by, alias+"."+quoteIdent(c.name))
	}
	// Places in a table that is deleted from do not: they are used again. The transaction's own count of its commands does. Subtransactions have
	// numbers of their own, so the number is asked only where nothing tells the transactions apart.
	began := "pg_catalog.age(" + alias + ".xmin) DESC"
	if commitTimes {
		began = "CASE WHEN " + at + " IS NULL THEN pg_catalog.age(" + alias + ".xmin) END DESC"
	}
	return strings.Join(append(by, began, alias+".cmin::text::bigint", alias+".tableoid", alias+".ctid"), ", ")
}
