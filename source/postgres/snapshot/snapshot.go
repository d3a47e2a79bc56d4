// Package snapshot reads the rows that are pending at a new position. Both ways to read, from the log and by polling, begin with it.
package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store"
)

// A Tables is the state of the tables at the position where a new slot begins. It is a read-only transaction on a
// connection of its own.
type Tables struct {
	Cfg *session.Config
	// Conn is in the transaction.
	Conn *pgx.Conn
	// At is the position, in the log.
	At pgrepl.LSN
	// Within, if set, is a further SQL condition on each row, with the alias t. The position is then in the sequence, not in the log.
	Within string
	sweeps []sweep
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	rows  *catalog.RowReader
	where string
}

var (
	_ source.Snapshot  = (*Tables)(nil)
	_ source.Discarder = (*Tables)(nil)
)

// Resume implements source.Snapshot.
func (s *Tables) Resume() source.Resume { return source.Resume(s.At.String()) }

// Close implements source.Snapshot.
func (s *Tables) Close(ctx context.Context) error { return session.Close(ctx, s.Conn) }

// Discard implements source.Discarder: it drops the slot.
func (s *Tables) Discard(ctx context.Context) error {
	if err := session.Exec(ctx, s.Conn.PgConn(), "ROLLBACK"); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	if err := session.Exec(ctx, s.Conn.PgConn(), "SELECT pg_catalog.pg_drop_replication_slot("+sqltext.Literal(s.Cfg.Slot)+")"); err != nil {
		return fmt.Errorf("drop replication slot %q: %w", s.Cfg.Slot, err)
	}
	return nil
}

// Judge implements source.Snapshot.
func (s *Tables) Judge(ctx context.Context, known source.Known) (bool, error) {
	s.sweeps = nil
	var unjudged []error
	if s.Cfg.Messages != "" && !known.First && !known.AcceptGap && s.Within == "" {
		unjudged = append(unjudged, fmt.Errorf("messages that were written by pg_logical_emit_message with the prefix %q are in no table, and those "+
			"that the lost log held cannot be swept: run tailbox accept-gap --why … to go on without them: %w", s.Cfg.Messages, source.ErrUnjudged))
	}
	for i := range s.Cfg.Tables {
		rows, err := catalog.NewRowReader(ctx, s.Conn.PgConn(), &s.Cfg.Tables[i], s.Cfg.MaxMessage)
		if err != nil {
			return false, err
		}
		where, fix := Pending(s.Cfg, rows.Table, known)
		if where == "" {
			continue
		}
		if s.Within != "" {
			where = "(" + where + ") AND " + s.Within
		}
		found, err := s.exists(ctx, rows, where)
		switch {
		case err != nil:
			return false, err
		case found && fix != "" && !known.AcceptGap:
			unjudged = append(unjudged, fmt.Errorf("table %s has rows and neither a status nor a delivered_at column: %s: %w", rows.Table, fix, source.ErrUnjudged))
		case found && fix == "":
			s.sweeps = append(s.sweeps, sweep{rows, where})
		}
	}
	return len(s.sweeps) > 0, errors.Join(unjudged...)
}

func (s *Tables) exists(ctx context.Context, rows *catalog.RowReader, where string) (bool, error) {
	var found bool
	err := s.Conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+rows.From()+" t WHERE "+where+")").Scan(&found)
	if err != nil {
		return false, pgerr.Fault("look for pending rows in "+rows.Table.String(), err)
	}
	return found, nil
}

// Pending is the SQL condition by which a table's rows are pending at a new position; "" = none is. If fix is not "", no column says which rows are:
// if there are rows, an operator has to do what fix says.
func Pending(c *session.Config, t *catalog.Table, known source.Known) (where, fix string) {
	if where := t.Pending("t"); where != "" {
		return where, ""
	}
	sweep, fix := store.Unmarked(&t.Table, c.Start, known)
	if !sweep {
		return "", ""
	}
	return "TRUE", fix
}
