// Package source says what it means to tail a database's log for the inserts into outbox tables. Each database has a
// package of its own below this one; sourcetest holds the kit that all of them pass against real servers.
package source

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// CloseTime is how long the end of a session waits for a database that does not answer before it leaves the lock to the
// database, which frees it in its own time. It is for a busy server, that of a dead one is found out by its connection.
const CloseTime = 5 * time.Second

// AwayFor is how long a table that does not exist is waited for. One that is made anew, or renamed away and another one in its place, by
// one statement after the other is away for a moment.
const AwayFor = 5 * time.Second

// A Resume is a place in the log where reading can start again, at the end of a transaction. Only the driver that made
// it can read it; to everyone else it is opaque text. Empty means none.
type Resume string

// A Batch is a piece of the log, in the log's order. It holds at most about 256 KiB of messages (one message may be
// larger), and may end anywhere in a transaction or span several.
type Batch struct {
	// Messages in the order of the log.
	Messages []*outbox.Message
	// ParkedAt names, for messages a sweep or a reconciliation found, the sinks where a delivery of Messages[i] is parked
	// already and so is left out. Nil when nothing is parked.
	ParkedAt [][]string
	// Resume is where reading can start again once everything up to the end of this batch is settled. It is set only when the
	// batch ends at the end of a transaction (or, without messages, for bare progress: a keepalive). If a batch spans
	// several transactions it is the end of the last one.
	Resume Resume
	// Marks are the ends of further transactions inside the batch, so that a checkpoint can move before the whole batch is
	// settled: everything up to and including Messages[Mark.N-1] belongs to transactions that end at Mark.Resume. Ordered.
	Marks []Mark
	// Barrier is set on a batch without messages: everything that was in the log when the barrier was asked for has been
	// emitted before.
	Barrier string
	// CommitLag is how far the reader is behind the log's end, in bytes, as far as it knows; 0 when unknown.
	CommitLag int64
	// LogBytes is how much log was read since the batch before, what was left out included, as far as the reader knows; 0
	// when unknown. Progress without messages is saved sooner where it is much.
	LogBytes int64
}

// A Mark is the end of a transaction inside a batch.
type Mark struct {
	// N is the number of messages of the batch up to the end of the transaction.
	N      int
	Resume Resume
}

// Emit takes a batch. It blocks while the relay has no memory for more: this is the backpressure. The batch belongs to
// the receiver afterwards. An error means that the relay is stopping, and is returned by Run unchanged.
type Emit func(context.Context, *Batch) error

// A Start says where and how a Source begins.
type Start struct {
	// From is where reading starts: the last durable checkpoint.
	From Resume
	// Log goes into the positions of all messages.
	Log uint32
	// LastCommit is the highest commit ordinal that the checkpoint covers, for sources that count commits.
	LastCommit uint64
	// SafeMode, if not nil, is called with a message's position before anything of the row is decoded, and messages are
	// emitted one a batch: the last starts ended uncleanly, and one row may be the cause.
	SafeMode func(context.Context, outbox.Position) error
	// Reading, if not nil, is called once, before anything is emitted: the server lets us read from From on.
	Reading func()
}

// Begun tells that reading has begun.
func (s *Start) Begun() {
	if s.Reading != nil {
		s.Reading()
	}
}

// A Source tails the log of one database. One goroutine calls Run; the other methods may be called from any goroutine
// while it runs.
type Source interface {
	// Run emits what the log holds from start.From on, until ctx ends (nil is returned then) or reading fails. It answers
	// the server's keepalives while emit blocks. It does not reconnect: a failure is returned, and the relay calls Run again
	// from the last durable checkpoint. An error that matches ErrGap means that From cannot be read any more; one
	// that matches ErrStop that an operator has to act.
	Run(ctx context.Context, start Start, emit Emit) error
	// Confirm tells the server that everything up to r is durable elsewhere and may be discarded. It does not block.
	Confirm(r Resume)
	// Await asks for a batch with this Barrier once everything that was in the log when the barrier was made has been
	// emitted. The barrier's text comes from the store of the same database. It does not block.
	Await(barrier string)
	// Establish makes a new position at the present end of the log, and a snapshot that belongs to it: a row is either
	// in the snapshot or comes after the position, never both and never neither.
	Establish(ctx context.Context) (Snapshot, error)
	// Examine compares a checkpoint with the server, before Run: whether it is the same server, and whether its log can
	// still be read from there. With from empty it only names the server.
	Examine(ctx context.Context, sourceID string, from Resume) (*Examined, error)
}

// A Taker is a Source that can go on from where another reader of the log stopped.
type Taker interface {
	// TakeOver makes a position of the other reader's, with nothing to sweep: what was committed before is that reader's. It returns nil if the
	// configuration asks for none. It is called on a first start alone.
	TakeOver(ctx context.Context) (Snapshot, error)
}

// Begin makes the position that a start begins at: that of a Taker on a first start, or else a new one.
func Begin(ctx context.Context, src Source, first bool) (Snapshot, error) {
	if taker, ok := src.(Taker); ok && first {
		if taken, err := taker.TakeOver(ctx); err != nil || taken != nil {
			return taken, err
		}
	}
	return src.Establish(ctx)
}

// Taken is the position of a Taker, as a Snapshot.
type Taken Resume

var _ Snapshot = Taken("")

// Resume implements Snapshot.
func (t Taken) Resume() Resume { return Resume(t) }

// Judge implements Snapshot.
func (Taken) Judge(context.Context, Known) (bool, error) { return false, nil }

// Pending implements Snapshot.
func (Taken) Pending(context.Context, uint32, Emit) error { return nil }

// Close implements Snapshot.
func (Taken) Close(context.Context) error { return nil }

// A Judge is a Source that can judge pending rows before Establish gives up what the server still holds of the position before.
type Judge interface {
	// Judge is as that of a Snapshot of now. It changes nothing.
	Judge(ctx context.Context, known Known) (sweep bool, err error)
}

// Examined is what Examine found.
type Examined struct {
	// SourceID names the server now.
	SourceID string
	// Lost is the reason why the position cannot be read any more, for the operator; "" means that it can.
	Lost string
	// Ahead is set if nothing but the log up to it is Lost: from there on it can be read.
	Ahead Resume
	// Moved: the same log goes on at another server or timeline and nothing is missing: positions get a new Log, reading
	// goes on from the checkpoint.
	Moved bool
	// Shared is where the two part, when Moved: transactions with a lower commit ordinal are the same in both, those from
	// it on may be others with the same ordinals.
	Shared uint64
}

// A Snapshot is the state of the outbox tables at a newly established position. It is used by one goroutine.
type Snapshot interface {
	// Resume is the position that the snapshot belongs to.
	Resume() Resume
	// Judge reports whether there are rows to sweep. ErrUnjudged, with the fix, where nothing tells which rows are pending and the
	// operator has not accepted the gap.
	Judge(ctx context.Context, known Known) (sweep bool, err error)
	// Pending emits the rows that Judge found pending, ordered as they are to be delivered, with positions {log, 0, rank} and
	// with ParkedAt. Batches carry no Resume.
	Pending(ctx context.Context, log uint32, emit Emit) error
	// Close ends the snapshot, not the position.
	Close(ctx context.Context) error
}

// A Discarder is a Snapshot whose position the server keeps log for until it is discarded.
type Discarder interface {
	// Discard gives the position up. The snapshot is still to be closed.
	Discard(ctx context.Context) error
}

// Known is what is known where rows are judged, beside what their own columns say.
type Known struct {
	// First: no position was ever used before, so rows of a table without a status column are judged by the configured start.
	First bool
	// Again, with First: a position was made before, and its sweep did not end. Among the rows are those that were written since, which start does
	// not mean where it says now.
	Again bool
	// AcceptGap: the operator gives up what nothing tells.
	AcceptGap bool
}

var (
	// ErrGap means that the position can no longer be read (slot lost, log purged, another server). A sweep heals it.
	ErrGap = errors.New("log position lost")
	// ErrUnjudged means that rows exist, and no status column tells whether they were delivered.
	ErrUnjudged = errors.New("nothing tells which rows are pending")
	// ErrStop means that only an operator can mend this; reading again as it is would fail again. The text holds the fix.
	ErrStop = errors.New("stopped until an operator acts")
	// ErrNoTable is an ErrStop, with its text, for a configured table that does not exist. It may be there again within AwayFor.
	ErrNoTable error = noTable{}
)

type noTable struct{}

func (noTable) Error() string { return ErrStop.Error() }
func (noTable) Unwrap() error { return ErrStop }

// Ended reports whether a context is at its end. A socket's deadline is the context's, and may pass a moment before the context knows of it.
func Ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
