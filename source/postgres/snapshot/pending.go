package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store"
)

// Pending implements source.Snapshot. Tables come in their configured order. Rows of a table are ordered by commit time if the server keeps it
// (track_commit_timestamp), then by the sequence column, else by created_at, then by numbered ids. If none of these tells, transactions come in the
// order in which they began to write, and the rows of a transaction in the order in which it wrote them.
func (s *Tables) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	p := store.Sweep{Log: log, Emit: emit}
	var commitTimes string
	err := s.Conn.QueryRow(ctx, "SELECT pg_catalog.clock_timestamp(), current_setting('track_commit_timestamp')").Scan(&p.Now, &commitTimes)
	if err != nil {
		return fmt.Errorf("read the server's time: %w", err)
	}
	p.Now = p.Now.UTC()
	parked, err := s.parkedTable(ctx)
	if err != nil {
		return err
	}
	for _, sw := range s.sweeps {
		if err := s.pendingOf(ctx, sw, commitTimes == "on" && s.Within == "", parked, &p); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// parkedTable is the quoted name of tailbox_parked if it has rows of this pipeline, else "".
func (s *Tables) parkedTable(ctx context.Context) (string, error) {
	var name *string
	own := outbox.Table{Schema: cmp.Or(s.Cfg.Schema, session.PathOf(s.Conn.PgConn()).Schema()), Name: "tailbox_parked"}
	err := s.Conn.QueryRow(ctx, "SELECT to_regclass($1)::text", sqltext.Table(&own)).Scan(&name)
	if err != nil || name == nil {
		return "", wrap("look up table tailbox_parked", err)
	}
	var found bool
	err = s.Conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+*name+" WHERE pipeline = $1)", s.Cfg.Pipeline).Scan(&found)
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
func (s *Tables) pendingOf(ctx context.Context, sw sweep, commitTimes bool, parked string, p *store.Sweep) error {
	r := sw.rows
	sinks, join := "NULL::text", ""
	if parked != "" {
		// All states count: dropped and delivered deliveries stay in tailbox_parked until their message is settled.
		sinks = "p.sinks"
		join = " LEFT JOIN (SELECT message_id, string_agg(sink, ',') AS sinks FROM " + parked + " WHERE pipeline = " +
			sqltext.Literal(s.Cfg.Pipeline) + " AND source_table = " + sqltext.Literal(r.Table.String()) +
			" GROUP BY message_id) p ON p.message_id = " + r.ID("t")
	}
	query := "SELECT " + r.List("t") + ", " + sinks + " FROM " + r.From() + " t" + join + " WHERE " + sw.where +
		" ORDER BY " + r.Table.Order("t", commitTimes)
	rows, err := s.Conn.Query(ctx, query, r.Formats(1))
	if err != nil {
		return fmt.Errorf("read pending rows of %s: %w", r.Table, err)
	}
	defer rows.Close()
	for rows.Next() {
		m, err := r.Message(rows)
		if err != nil {
			return err
		}
		var at []string
		if sinks := rows.RawValues()[r.Width()]; sinks != nil {
			at = strings.Split(string(sinks), ",")
		}
		if err := p.Add(ctx, m, at); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read pending rows of %s: %w", r.Table, pgerr.Unsendable(err))
	}
	return nil
}
