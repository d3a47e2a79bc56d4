// Package polling reads an outbox table in the order of its AUTO_INCREMENT column, where the binlog cannot be read. It waits for numbers that
// open transactions may still write.
package polling

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/snapshot"
	"github.com/tailbox/tailbox/source/poll"
)

// A Source reads an outbox table in the order of its AUTO_INCREMENT column, where the binlog cannot be read. It needs no
// binlog and no right to replicate, but the right PROCESS. See source.Source for its methods, and package poll for what positions are.
type Source struct {
	cfg      server.Config
	barriers *poll.Barriers
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg server.Config) *Source {
	cfg.MaxMessage, cfg.Poll = catalog.MaxMessageOr(cfg.MaxMessage), true
	cfg.Logger = cfg.Log()
	return &Source{cfg: cfg, barriers: poll.NewBarriers()}
}

// Confirm implements source.Source: there is no log to discard.
func (s *Source) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a number.
func (s *Source) Await(barrier string) { s.barriers.Await(barrier) }

// Open opens a session for polling, where each statement shows all that was committed before it, and looks the table up. The
// caller closes the session, also after an error.
func Open(ctx context.Context, c *server.Config) (*server.Conn, *Table, error) {
	s, err := c.Connect(ctx, c.URL)
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range append(uncached(s.Server), "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET wait_timeout = 31536000, net_write_timeout = 3600") {
		if _, err := s.Exec(ctx, sql); err != nil {
			return s, nil, fmt.Errorf("set up session: %w", err)
		}
	}
	t, err := openTable(ctx, c, s)
	return s, t, err
}

// uncached makes MySQL look up the number that comes next, which it else remembers for a day.
func uncached(s server.Version) []string {
	if s.MariaDB {
		return nil
	}
	return []string{"SET information_schema_stats_expiry = 0"}
}

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	conn, t, err := Open(ctx, &s.cfg)
	if conn != nil {
		defer func() { _ = conn.Close(ctx) }() // it has only read, and what emit returned is returned unchanged
	}
	if err != nil {
		if source.Ended(ctx) {
			return nil
		}
		return err
	}
	r := poll.Reader{Table: t, Barriers: s.barriers, Logger: s.cfg.Logger}
	err = r.Run(ctx, start, emit)
	switch server.Code(err) {
	case 1146, 1054, 1176, server.CodeNeedPrivilege, 1142, 1143: // the table, or what may be done with it, is not what it was
		if again := s.lookAgain(ctx); again != nil {
			return again
		}
	}
	return err
}

// lookAgain tells whether an operator has to mend the table; nil if not.
func (s *Source) lookAgain(ctx context.Context) error {
	conn, _, err := Open(ctx, &s.cfg)
	if conn != nil {
		err = errors.Join(err, conn.Close(ctx))
	}
	if errors.Is(err, source.ErrStop) {
		return err
	}
	return nil
}

// Examine implements source.Source. A SourceID is the same as that of a source that reads the log.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return Examine(ctx, &s.cfg, sourceID, from)
}

// Examine compares a checkpoint with the server. Another server may have drawn numbers again that the first one lost: there the
// position is lost, and the sweep finds what is pending.
func Examine(ctx context.Context, c *server.Config, checkpointID string, from source.Resume) (e *source.Examined, err error) {
	conn, t, err := Open(ctx, c)
	if conn != nil {
		defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	}
	if err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = server.SourceID(ctx, conn); err != nil {
		return nil, err
	}
	if from == "" {
		return e, nil
	}
	at, _, err := poll.ParseResume(from)
	switch {
	case err != nil:
		e.Lost = fmt.Sprintf("the checkpoint %s was made when source.read was log: now the table is polled", from)
		return e, nil
	case checkpointID != "" && checkpointID != e.SourceID:
		e.Lost = fmt.Sprintf("the checkpoint belongs to server %s, this is %s, where numbers may have been drawn again", checkpointID, e.SourceID)
		return e, nil
	}
	last, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if last < at {
		e.Lost = t.wentBack(at, last)
	}
	return e, nil
}

// Establish implements source.Source: the position is the last number that was drawn, once all transactions have ended that may
// have drawn one up to it. What the snapshot shows beyond it comes after the position.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	conn, t, err := Open(ctx, &s.cfg)
	if err == nil {
		var at uint64
		if at, err = s.openSnapshot(ctx, conn, t); err == nil {
			s.cfg.Logger.Info("established a position in the sequence", "table", t.table.String(), "position", at)
			snap := snapshot.Of(&s.cfg, conn, fmt.Sprintf("t.%s <= %d", quote.Ident(t.seq), at))
			return &pollSnapshot{snap, at}, nil
		}
	}
	if conn != nil {
		err = errors.Join(err, conn.Close(ctx))
	}
	return nil, fmt.Errorf("establish a position in the sequence: %w", err)
}

// openSnapshot waits for a position, and begins a transaction that sees all there is up to it.
func (s *Source) openSnapshot(ctx context.Context, conn *server.Conn, t *Table) (at uint64, err error) {
	if at, err = t.last(ctx); err != nil {
		return 0, err
	}
	if err := poll.WaitFor(ctx, t, at, s.cfg.Logger); err != nil {
		return 0, err
	}
	for _, sql := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET group_concat_max_len = 1048576", snapshot.Begin} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return 0, fmt.Errorf("open snapshot: %w", err)
		}
	}
	return at, nil
}

// A pollSnapshot is the state of the table up to a number.
type pollSnapshot struct {
	*snapshot.Tables
	at uint64
}

// Resume implements source.Snapshot.
func (s *pollSnapshot) Resume() source.Resume { return poll.FormatResume(s.at, "") }
