package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
)

// A PollSource reads an outbox table in the order of its AUTO_INCREMENT column, where the binlog cannot be read. It needs no
// binlog and no right to replicate, but the right PROCESS. See source.Source for its methods, and package poll for what positions are.
type PollSource struct {
	cfg      config
	barriers *poll.Barriers
}

var _ source.Source = (*PollSource)(nil)

// NewPoll returns a source. It does not connect.
func NewPoll(cfg config) *PollSource {
	cfg.MaxMessage, cfg.Poll = maxMessageOr(cfg.MaxMessage), true
	cfg.Logger = cfg.logger()
	return &PollSource{cfg: cfg, barriers: poll.NewBarriers()}
}

// Confirm implements source.Source: there is no log to discard.
func (s *PollSource) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a number.
func (s *PollSource) Await(barrier string) { s.barriers.Await(barrier) }

// openPoll opens a session for polling, where each statement shows all that was committed before it, and looks the table up. The
// caller closes the session, also after an error.
func openPoll(ctx context.Context, c *config) (*session, *pollTable, error) {
	s, err := c.connect(ctx, c.URL)
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range append(uncached(s.server), "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET wait_timeout = 31536000, net_write_timeout = 3600") {
		if _, err := s.exec(ctx, sql); err != nil {
			return s, nil, fmt.Errorf("set up session: %w", err)
		}
	}
	t, err := openTable(ctx, c, s)
	return s, t, err
}

// uncached makes MySQL look up the number that comes next, which it else remembers for a day.
func uncached(s server) []string {
	if s.mariadb {
		return nil
	}
	return []string{"SET information_schema_stats_expiry = 0"}
}

// Run implements source.Source.
func (s *PollSource) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	conn, t, err := openPoll(ctx, &s.cfg)
	if conn != nil {
		defer func() { _ = conn.close(ctx) }() // it has only read, and what emit returned is returned unchanged
	}
	if err != nil {
		if source.Ended(ctx) {
			return nil
		}
		return err
	}
	r := poll.Reader{Table: t, Barriers: s.barriers, Logger: s.cfg.Logger}
	err = r.Run(ctx, start, emit)
	switch errorCode(err) {
	case 1146, 1054, 1176, codeNeedPrivilege, 1142, 1143: // the table, or what may be done with it, is not what it was
		if again := s.lookAgain(ctx); again != nil {
			return again
		}
	}
	return err
}

// lookAgain tells whether an operator has to mend the table; nil if not.
func (s *PollSource) lookAgain(ctx context.Context) error {
	conn, _, err := openPoll(ctx, &s.cfg)
	if conn != nil {
		err = errors.Join(err, conn.close(ctx))
	}
	if errors.Is(err, source.ErrStop) {
		return err
	}
	return nil
}

// Examine implements source.Source. A SourceID is the same as that of a source that reads the log.
func (s *PollSource) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return examinePoll(ctx, &s.cfg, sourceID, from)
}

// examinePoll compares a checkpoint with the server. Another server may have drawn numbers again that the first one lost: there the
// position is lost, and the sweep finds what is pending.
func examinePoll(ctx context.Context, c *config, checkpointID string, from source.Resume) (e *source.Examined, err error) {
	conn, t, err := openPoll(ctx, c)
	if conn != nil {
		defer func() { err = errors.Join(err, conn.close(ctx)) }()
	}
	if err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = sourceID(ctx, conn); err != nil {
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
func (s *PollSource) Establish(ctx context.Context) (source.Snapshot, error) {
	conn, t, err := openPoll(ctx, &s.cfg)
	if err == nil {
		var at uint64
		if at, err = s.openSnapshot(ctx, conn, t); err == nil {
			s.cfg.Logger.Info("established a position in the sequence", "table", t.table.String(), "position", at)
			snap := snapshotOf(&s.cfg, conn, fmt.Sprintf("t.%s <= %d", quoteIdent(t.seq), at))
			return &pollSnapshot{snap, at}, nil
		}
	}
	if conn != nil {
		err = errors.Join(err, conn.close(ctx))
	}
	return nil, fmt.Errorf("establish a position in the sequence: %w", err)
}

// openSnapshot waits for a position, and begins a transaction that sees all there is up to it.
func (s *PollSource) openSnapshot(ctx context.Context, conn *session, t *pollTable) (at uint64, err error) {
	if at, err = t.last(ctx); err != nil {
		return 0, err
	}
	if err := poll.WaitFor(ctx, t, at, s.cfg.Logger); err != nil {
		return 0, err
	}
	for _, sql := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET group_concat_max_len = 1048576", openSnapshot} {
		if _, err := conn.exec(ctx, sql); err != nil {
			return 0, fmt.Errorf("open snapshot: %w", err)
		}
	}
	return at, nil
}

// A pollSnapshot is the state of the table up to a number.
type pollSnapshot struct {
	*tableSnapshot
	at uint64
}

// Resume implements source.Snapshot.
func (s *pollSnapshot) Resume() source.Resume { return poll.FormatResume(s.at, "") }
