// Package polling reads an outbox table in the order of its sequence column, for servers whose log cannot be read.
package polling

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/snapshot"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// A Source reads an outbox table in the order of its sequence column, where the log cannot be read. It needs no slot, no
// publication and no right to replicate. See source.Source for its methods, and package poll for what positions are.
type Source struct {
	cfg      session.Config
	barriers *poll.Barriers
	seen     upstream.Witness
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg session.Config) *Source {
	cfg.MaxMessage, cfg.Poll = session.MaxMessage(cfg.MaxMessage), true
	cfg.Logger = cfg.Log()
	return &Source{cfg: cfg, barriers: poll.NewBarriers()}
}

// Confirm implements source.Source: there is no log to discard.
func (s *Source) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a number.
func (s *Source) Await(barrier string) { s.barriers.Await(barrier) }

// settings make the planner walk along the index on the sequence column, whatever it thinks of a table that fills and
// empties faster than statistics follow; and a statement shows all that was committed before it began.
const settings = `SELECT pg_catalog.set_config(name, value, false) FROM (VALUES ('default_transaction_isolation', 'read committed'),
	('default_transaction_read_only', 'on'), ('default_transaction_deferrable', 'off'), ('row_security', 'off'),
	('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off')) AS s (name, value)`

// open opens a session for polling, and looks the table up. The caller closes the connection, also after an error.
func open(ctx context.Context, c *session.Config) (*pgx.Conn, *table, error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range []string{session.NoTimeouts, settings} {
		if err := session.Exec(ctx, conn.PgConn(), sql); err != nil {
			return conn, nil, fmt.Errorf("set up session: %w", err)
		}
	}
	t, err := openTable(ctx, c, conn)
	return conn, t, err
}

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) (err error) {
	conn, t, err := open(ctx, &s.cfg)
	if conn != nil {
		defer func() { _ = session.Close(ctx, conn) }() // it has only read, and what emit returned is returned unchanged
	}
	if err != nil {
		if source.Ended(ctx) {
			return nil
		}
		return err
	}
	r := poll.Reader{Table: t, Barriers: s.barriers, Logger: s.cfg.Logger}
	err = r.Run(ctx, start, emit)
	if state := pgerr.State(err); len(state) == 5 && state[:2] == "42" { // the table is not what it was
		if again := s.lookAgain(ctx); again != nil {
			return again
		}
	}
	return err
}

// lookAgain tells whether an operator has to mend the table; nil if not.
func (s *Source) lookAgain(ctx context.Context) error {
	conn, _, err := open(ctx, &s.cfg)
	if conn != nil {
		err = errors.Join(err, session.Close(ctx, conn))
	}
	if errors.Is(err, source.ErrStop) {
		return err
	}
	return nil
}

// Examine implements source.Source. A SourceID is an upstream.ID, as that of a source that reads the log.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return Examine(ctx, &s.cfg, sourceID, from, &s.seen)
}

// Examine compares a checkpoint with the server. Numbers that a failover lost are drawn again, and no history tells which:
// at another timeline the position is lost, and the sweep finds what is pending.
func Examine(ctx context.Context, c *session.Config, sourceID string, from source.Resume, seen *upstream.Witness) (e *source.Examined, err error) {
	conn, t, err := open(ctx, c)
	if conn != nil {
		defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	}
	if err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = upstream.IDOf(ctx, conn); err != nil {
		return nil, fmt.Errorf("name the server: %w", err)
	}
	before, id := upstream.ParseID(sourceID), upstream.ParseID(e.SourceID)
	defer func() {
		if err == nil {
			seen.Note(id, 0)
		}
	}()
	if from == "" {
		return e, nil
	}
	at, series, err := poll.ParseResume(from)
	switch {
	case err != nil:
		e.Lost = fmt.Sprintf("the checkpoint %s was made when source.read was log: now the table is polled", from)
		return e, nil
	case sourceID != "" && before.History != id.History:
		e.Lost = fmt.Sprintf("the checkpoint belongs to server and timeline %s, this is %s, where numbers may have been drawn again", before.History, id.History)
		return e, nil
	}
	last, now, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if e.Lost = poll.Anew(at, series, now); last < at {
		e.Lost = t.wentBack(at, last)
	}
	e.Moved, e.Shared = sourceID != "" && e.Lost == "" && !seen.Same(before, id, 0), math.MaxUint64
	return e, nil
}

// Establish implements source.Source: the position is the last number that was drawn, once all transactions have ended that may
// have drawn one up to it. What the snapshot shows beyond it comes after the position.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	conn, t, err := open(ctx, &s.cfg)
	if err == nil {
		var snap *state
		if snap, err = s.openSnapshot(ctx, conn, t); err == nil {
			s.cfg.Logger.Info("established a position in the sequence", "table", t.table.String(), "position", snap.at)
			return snap, nil
		}
	}
	if conn != nil {
		err = errors.Join(err, session.Close(ctx, conn))
	}
	return nil, fmt.Errorf("establish a position in the sequence: %w", err)
}

// openSnapshot waits for a position, and begins a transaction that sees all there is up to it. The rows that belong to the snapshot are
// those up to the position, and those that the sequence never gave.
func (s *Source) openSnapshot(ctx context.Context, conn *pgx.Conn, t *table) (*state, error) {
	at, series, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if err := poll.WaitFor(ctx, t, at, s.cfg.Logger); err != nil {
		return nil, err
	}
	const open = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_catalog.pg_current_snapshot()"
	if err := session.Exec(ctx, conn.PgConn(), open); err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	last, _, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	within := fmt.Sprintf("(%[1]s <= %[2]d OR %[1]s > %[3]d)", "t."+sqltext.Ident(t.seq), at, last)
	return &state{&snapshot.Tables{Cfg: &s.cfg, Conn: conn, Within: within}, at, series}, nil
}

// A state is the state of the table up to a number.
type state struct {
	*snapshot.Tables
	at     uint64
	series string
}

// Resume implements source.Snapshot.
func (s *state) Resume() source.Resume { return poll.FormatResume(s.at, s.series) }
