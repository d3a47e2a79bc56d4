package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tailbox/tailbox/source"
)

// A Session is a session of a server that polls one table. One goroutine uses it.
type Session interface {
	Table
	// String names the table.
	String() string
	// Last returns the last number that was drawn, and the series that it belongs to, as in Numbers.
	Last(ctx context.Context) (n uint64, series string, err error)
	// WentBack says why a position means nothing any more if the last number is below it.
	WentBack(at, last uint64) string
	// Snapshot begins a transaction that shows the rows up to a number. From then on the session belongs to what Snapshot returns.
	Snapshot(ctx context.Context, at uint64) (Snapshot, error)
	Close(ctx context.Context) error
}

// A Snapshot is a source.Snapshot that does not know its position.
type Snapshot interface {
	Judge(ctx context.Context, known source.Known) (sweep bool, err error)
	Pending(ctx context.Context, log uint32, emit source.Emit) error
	Close(ctx context.Context) error
}

// A Source implements source.Source, except for Examine, which each kind adds.
type Source struct {
	open     func(context.Context) (Session, error)
	changed  func(error) bool
	logger   *slog.Logger
	barriers *Barriers
}

// NewSource returns a source. It does not connect. Open opens a session; its error matches source.ErrStop if the table cannot be polled. Changed tells
// whether the server refused a statement because the table, or the rights to it, changed.
func NewSource(open func(context.Context) (Session, error), changed func(error) bool, logger *slog.Logger) Source {
	return Source{open, changed, logger, NewBarriers()}
}

// Confirm implements source.Source: there is no log to discard.
func (s *Source) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a number.
func (s *Source) Await(barrier string) { s.barriers.Await(barrier) }

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	t, err := s.open(ctx)
	if err != nil {
		if source.Ended(ctx) {
			return nil
		}
		return err
	}
	defer func() { _ = t.Close(ctx) }() // it has only read, and what emit returned is returned unchanged
	r := Reader{Table: t, Barriers: s.barriers, Logger: s.logger}
	err = r.Run(ctx, start, emit)
	if s.changed(err) {
		if stop := s.lookAgain(ctx); stop != nil {
			return stop
		}
	}
	return err
}

// lookAgain reports whether an operator has to fix the table; nil if not.
func (s *Source) lookAgain(ctx context.Context) error {
	t, err := s.open(ctx)
	if err == nil {
		err = t.Close(ctx)
	}
	if errors.Is(err, source.ErrStop) {
		return err
	}
	return nil
}

// Establish implements source.Source: the position is the last number that was drawn, once all transactions have ended that may
// have drawn one up to it. Rows that the snapshot shows beyond the position come after it.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	t, err := s.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("establish a position in the sequence: %w", err)
	}
	at, series, err := t.Last(ctx)
	if err == nil {
		err = WaitFor(ctx, t, at, s.logger)
	}
	var rows Snapshot
	if err == nil {
		rows, err = t.Snapshot(ctx, at)
	}
	if err != nil {
		return nil, fmt.Errorf("establish a position in the sequence: %w", errors.Join(err, t.Close(ctx)))
	}
	s.logger.Info("established a position in the sequence", "table", t.String(), "position", at)
	return &positioned{rows, FormatResume(at, series)}, nil
}

// positioned is a snapshot with its position.
type positioned struct {
	Snapshot
	resume source.Resume
}

// Resume implements source.Snapshot.
func (p *positioned) Resume() source.Resume { return p.resume }

// Lost returns why reading cannot go on from a checkpoint; "" if it can. elsewhere says why the checkpoint belongs to another server; "" if it belongs to
// this one.
func Lost(ctx context.Context, t Session, from source.Resume, elsewhere string) (string, error) {
	at, series, err := ParseResume(from)
	switch {
	case err != nil:
		return fmt.Sprintf("the checkpoint %s was made when source.read was log: now the table is polled", from), nil
	case elsewhere != "":
		return elsewhere, nil
	}
	last, now, err := t.Last(ctx)
	switch {
	case err != nil:
		return "", err
	case last < at:
		return t.WentBack(at, last), nil
	}
	return Anew(at, series, now), nil
}

// OfLog returns why a checkpoint means nothing to a source that reads the log; "" if polling did not make it.
func OfLog(from source.Resume) string {
	if _, _, err := ParseResume(from); err != nil {
		return ""
	}
	return fmt.Sprintf("the checkpoint %s was made when source.read was poll: now the log is read", from)
}
