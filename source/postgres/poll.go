package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
)

// A PollSource reads an outbox table in the order of its sequence column, where the log cannot be read. It needs no slot, no
// publication and no right to replicate. See source.Source for its methods, and package poll for what positions are.
type PollSource struct {
	cfg      Config
	barriers *poll.Barriers
	seen     witness
}

var _ source.Source = (*PollSource)(nil)

// NewPoll returns a source. It does not connect.
func NewPoll(cfg Config) *PollSource {
	cfg.MaxMessage, cfg.Poll = maxMessageOr(cfg.MaxMessage), true
	cfg.Logger = cfg.logger()
	return &PollSource{cfg: cfg, barriers: poll.NewBarriers()}
}

// Confirm implements source.Source: there is no log to discard.
func (s *PollSource) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a number.
func (s *PollSource) Await(barrier string) { s.barriers.Await(barrier) }

// pollSettings make the planner walk along the index on the sequence column, whatever it thinks of a table that fills and
// empties faster than statistics follow; and a statement shows all that was committed before it began.
const pollSettings = `SELECT pg_catalog.set_config(name, value, false) FROM (VALUES ('default_transaction_isolation', 'read committed'),
	('default_transaction_read_only', 'on'), ('default_transaction_deferrable', 'off'), ('row_security', 'off'),
	('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off')) AS s (name, value)`

// openPoll opens a session for polling, and looks the table up. The caller closes the connection, also after an error.
func (c *Config) openPoll(ctx context.Context) (*pgx.Conn, *pollTable, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range []string{noTimeouts, pollSettings} {
		if err := execSimple(ctx, conn.PgConn(), sql); err != nil {
			return conn, nil, fmt.Errorf("set up session: %w", err)
		}
	}
	t, err := c.pollTable(ctx, conn)
	return conn, t, err
}

// Run implements source.Source.
func (s *PollSource) Run(ctx context.Context, start source.Start, emit source.Emit) (err error) {
	conn, t, err := s.cfg.openPoll(ctx)
	if conn != nil {
		defer func() { _ = closeConn(ctx, conn) }() // it has only read, and what emit returned is returned unchanged
	}
	if err != nil {
		if source.Ended(ctx) {
			return nil
		}
		return err
	}
	r := poll.Reader{Table: t, Barriers: s.barriers, Logger: s.cfg.Logger}
	err = r.Run(ctx, start, emit)
	if state := sqlState(err); len(state) == 5 && state[:2] == "42" { // the table is not what it was
		if again := s.lookAgain(ctx); again != nil {
			return again
		}
	}
	return err
}

// lookAgain tells whether an operator has to mend the table; nil if not.
func (s *PollSource) lookAgain(ctx context.Context) error {
	conn, _, err := s.cfg.openPoll(ctx)
	if conn != nil {
		err = errors.Join(err, closeConn(ctx, conn))
	}
	if errors.Is(err, source.ErrStop) {
		return err
	}
	return nil
}

// Examine implements source.Source. A SourceID is a serverID, as that of a source that reads the log.
func (s *PollSource) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return s.cfg.examinePoll(ctx, sourceID, from, &s.seen)
}

// examinePoll compares a checkpoint with the server. Numbers that a failover lost are drawn again, and no history tells which:
// at another timeline the position is lost, and the sweep finds what is pending.
func (c *Config) examinePoll(ctx context.Context, sourceID string, from source.Resume, seen *witness) (e *source.Examined, err error) {
	conn, t, err := c.openPoll(ctx)
	if conn != nil {
		defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	}
	if err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = sourceIDOf(ctx, conn); err != nil {
		return nil, fmt.Errorf("name the server: %w", err)
	}
	before, id := parseServerID(sourceID), parseServerID(e.SourceID)
	defer func() {
		if err == nil {
			seen.note(id, 0)
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
	case sourceID != "" && before.history != id.history:
		e.Lost = fmt.Sprintf("the checkpoint belongs to server and timeline %s, this is %s, where numbers may have been drawn again", before.history, id.history)
		return e, nil
	}
	last, now, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if e.Lost = poll.Anew(at, series, now); last < at {
		e.Lost = t.wentBack(at, last)
	}
	e.Moved, e.Shared = sourceID != "" && e.Lost == "" && !seen.same(before, id, 0), math.MaxUint64
	return e, nil
}

// Establish implements source.Source: the position is the last number that was drawn, once all transactions have ended that may
// have drawn one up to it. What the snapshot shows beyond it comes after the position.
func (s *PollSource) Establish(ctx context.Context) (source.Snapshot, error) {
	conn, t, err := s.cfg.openPoll(ctx)
	if err == nil {
		var snap *pollSnapshot
		if snap, err = s.openSnapshot(ctx, conn, t); err == nil {
			s.cfg.Logger.Info("established a position in the sequence", "table", t.table.String(), "position", snap.at)
			return snap, nil
		}
	}
	if conn != nil {
		err = errors.Join(err, closeConn(ctx, conn))
	}
	return nil, fmt.Errorf("establish a position in the sequence: %w", err)
}

// openSnapshot waits for a position, and begins a transaction that sees all there is up to it. The rows that belong to the snapshot are
// those up to the position, and those that the sequence never gave.
func (s *PollSource) openSnapshot(ctx context.Context, conn *pgx.Conn, t *pollTable) (*pollSnapshot, error) {
	at, series, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if err := poll.WaitFor(ctx, t, at, s.cfg.Logger); err != nil {
		return nil, err
	}
	const open = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_catalog.pg_current_snapshot()"
	if err := execSimple(ctx, conn.PgConn(), open); err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	last, _, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	within := fmt.Sprintf("(%[1]s <= %[2]d OR %[1]s > %[3]d)", "t."+quoteIdent(t.seq), at, last)
	return &pollSnapshot{&tableSnapshot{cfg: &s.cfg, conn: conn, within: within}, at, series}, nil
}

// A pollSnapshot is the state of the table up to a number.
type pollSnapshot struct {
	*tableSnapshot
	at     uint64
	series string
}

// Resume implements source.Snapshot.
func (s *pollSnapshot) Resume() source.Resume { return poll.FormatResume(s.at, s.series) }
