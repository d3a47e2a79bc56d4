package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A Checkpoint is how far the relay has come: everything at or before Resume is settled, and so are the deliveries in
// SettledAbove.
type Checkpoint struct {
	// SourceID binds the position to one server: systemid and timeline, server_uuid, replica set.
	SourceID string
	Resume   source.Resume
	// Log and LastCommit continue the positions after a restart. While LastCommit is 0, nothing of the log was settled, and no position was
	// lost.
	Log        uint32
	LastCommit uint64
	// SettledAbove names deliveries beyond Resume that are settled, as inclusive ranges of positions per sink, ascending.
	SettledAbove map[string][]Range
	// SweepPending: a new position was established, and its sweep has not ended.
	SweepPending bool
}

// A Range is all messages of the log between two positions, both included.
type Range struct{ First, Last outbox.Position }

// A Lane names an ordered queue of one (sink, group). The group "" stands for all messages without a group, which
// are not ordered and block nothing. The sink "" holds messages that could not be routed or decoded; its lanes block the
// lanes of their group at every sink.
type Lane struct{ Sink, Group string }

// State of a parked delivery.
type State string

// States of a parked delivery.
const (
	StateRetrying State = "retrying" // failed, has a time of its next attempt
	StateWaiting  State = "waiting"  // never failed; waits behind another, for its sink, or for its available_at
	StateDead     State = "dead"     // given up; an operator decides
	StateDropped  State = "dropped"  // an operator gave it up; kept only until the whole message is settled
	// StateDelivered: delivered, but the message's row could not be dealt with yet, because it is locked, or because the database refuses it.
	StateDelivered State = "delivered"
)

// Parked is a delivery in the hands of the poller. It holds the whole message.
type Parked struct {
	Sink    string
	Message *outbox.Message // Message.Group may be "" ; Message.Position orders the lane
	State   State
	// Blocks: the delivery blocks its lane. Always for retrying and waiting (but for those with an available_at of
	// their own, and without a group), for dead under hold.
	Blocks bool
	// Attempts that were spent. Tries counts all tries at the sink: backoff follows it, and a failure that says nothing about
	// the message is a try that spends no attempt.
	Attempts, Tries int
	// Failed is when the sink last failed to take it; the zero value if it never did.
	Failed Failure
	// NextAttempt in how long from now, by the database's clock, the delivery is due; only meaningful with Due. A lane is
	// due when its first blocking delivery is. Deliveries without Due wait behind another one, or for an operator.
	Due         bool
	NextAttempt time.Duration
	LastError   string
	ErrorClass  string
	Replays     int
	// Original is the ID of the user's row where an operator's edit gave the delivery a new Message.ID; else "".
	Original string
	// InTable: the payload is not copied, the message is to be found in the user's table only (too_large).
	InTable bool
}

// A Failure is a moment in the calls to a sink: the number of its latest call, within one term of a relay. Terms are not
// ordered; a relay takes each term but its own for an earlier one.
type Failure struct {
	Epoch int64 // of the term
	Call  int64 // of the sink; counts from 1
}

// RowID is the id of the user's row, and the identity of the parked delivery.
func (p *Parked) RowID() string {
	if p.Original != "" {
		return p.Original
	}
	return p.Message.ID
}

// Key is what identifies a parked delivery.
func (p *Parked) Key() Key {
	return Key{Sink: p.Sink, Table: p.Message.Table, ID: p.RowID()}
}

// A Key identifies a parked delivery within a pipeline.
type Key struct{ Sink, Table, ID string }

// A Row is a message whose deliveries are all settled as far as memory knows: in this settlement it gets on_delivered, or
// the view of its parked deliveries.
type Row struct {
	Table    string
	ID       string
	Position outbox.Position
	// Txn is the message's Txn: 0 = visible.
	Txn uint64
	// Parked: deliveries of this message may be parked; the store looks, in the same transaction. False promises that there
	// are none.
	Parked bool
	// Message is the message itself, for feedback; nil if the relay does not have it.
	Message *outbox.Message
	// Receipt is what the sinks answered, a line each (SINK: ANSWER); "" if that is not wanted or not known.
	Receipt string
}

// A Change is a new state for a delivery that is parked already. It shows in the user's row, and applies on_delivered
// when nothing is left parked, only if a Row of the message was settled since it was parked: until then other deliveries of
// the message may be unsettled, in memory or in the log, and the Row is still to come.
type Change struct {
	Key   Key
	Group string
	// Delivered removes the delivery. Otherwise State, Blocks, Attempts, Tries, Failed, Due, NextAttempt, LastError and
	// ErrorClass replace what is there.
	Delivered   bool
	State       State
	Blocks      bool
	Attempts    int
	Tries       int
	Failed      Failure
	Due         bool
	NextAttempt time.Duration
	LastError   string
	ErrorClass  string
	// Message is the message, where the change is the outcome of an attempt; nil if the delivery is only put back.
	Message *outbox.Message
	// Receipt is what the sink answered, as in Row; only with Delivered.
	Receipt string
	// Supersede (on_exhausted latest): all blocking deliveries of the lane but the newest become dead and do not block.
	Supersede bool
}

// A Settlement is a set of outcomes that becomes durable in one transaction.
type Settlement struct {
	Park    []Parked
	Changes []Change
	Rows    []Row
	// LeaveRows: the rows of messages with parked deliveries are left as they are, because the database refuses to change one of them. What
	// is settled of these messages is durable all the same, and Due deals with the rows later, as with those that are locked.
	LeaveRows bool
	// Checkpoint is called once or more in the transaction, after Rows were tried, with the indexes of Rows that were not
	// visible yet, ascending; what it returns is saved, nil = leave the saved one alone. Nil means: no checkpoint.
	Checkpoint func(invisible []int) *Checkpoint
}

// Settled is what a settlement did.
type Settled struct {
	// Invisible are the indexes of Rows whose inserting transaction is not visible to this session yet: nothing was done
	// about them, and they are to be settled again. Ascending.
	Invisible []int
	// Awaited: some of these are in a table that somebody waits to lock as a whole (ALTER TABLE). Such a lock comes before all that is asked for
	// later, and after every transaction that has read the table: after that of a sweep, which may wait for the rows in turn.
	Awaited bool
	// Gone counts rows that the application had removed.
	Gone int
	// Open are those lanes of Changes that nothing blocks any more.
	Open []Lane
	// Next are those lanes of Changes that are still blocked and whose first delivery is due now.
	Next []Lane
	// Saved: a checkpoint was written.
	Saved bool
}

// Loaded is the durable state at the start.
type Loaded struct {
	Checkpoint *Checkpoint // nil: none yet
	// Blocked lanes, including those of the sink "".
	Blocked []Lane
	// Sinks with parked deliveries (state dropped excepted).
	ParkedSinks []string
	// PausedSinks and HeldLanes are what requests in force say.
	PausedSinks []string
	HeldLanes   []Lane
	// UncleanStarts counts the starts in a row, this one not included, that ended before anything was settled.
	UncleanStarts int
	// Started is what the last cautious start had in hand.
	Started CrashCandidate
	// AcceptGap: an operator accepted the gap behind this very checkpoint (Selection.From is its Resume), and no start has
	// used that up. What was said about another checkpoint counts for nothing.
	AcceptGap bool
	// SourceID is what the server says now.
	SourceID string
}

// A DueQuery says what Store.Due is to return.
type DueQuery struct {
	Sinks []string
	// Limit is the most deliveries of an answer, Bytes about the most payload of it, which the sinks share.
	Limit, Bytes int
	// Probe asks whether a sink delivers again, and takes few: those that were never tried (Tries = 0) come first, however many others are
	// due, and of them those that have been due longest; so what is put back untried lets the others go first. Those returned are in order
	// of priority and position. Then come those that were tried longest ago, in that order.
	Probe bool
	// Except is what the relay has in hand already, of at most Lanes lanes at each sink: only the first of a lane is ever due.
	Except map[Key]bool
	Lanes  int
}

// A Store keeps the relay's state in the user's database. All its work runs on one session, which holds the pipeline's
// lock: whoever loses the session can neither write nor believe that it holds the lock (I8). It is used by one
// goroutine at a time. Any error but a context's means that the session is not to be trusted any more: close the store and
// open a new one. An error that matches source.ErrStop means that an operator has to act.
type Store interface {
	// Load reads the state, once, and counts the start as unclean until something is settled.
	Load(ctx context.Context) (*Loaded, error)
	// Settle makes outcomes durable in one transaction: parks, changes, rows, checkpoint.
	Settle(ctx context.Context, s *Settlement) (*Settled, error)
	// Due returns the first deliveries of lanes that are due, those of higher Priority first, then in order of position, and how long until
	// the next one is due (0 = nothing is scheduled). If more are due than the query takes, those of higher priority are preferred, among as
	// many as the store compares at a time. What stands behind a message of its group that is parked at the sink "" is not due.
	Due(ctx context.Context, q *DueQuery) ([]Parked, time.Duration, error)
	// Page returns what is parked in a lane after a position, in order, up to the first delivery that waits for an
	// operator; at most limit deliveries and about bytes of payload. More tells whether blocking deliveries follow.
	Page(ctx context.Context, lane Lane, after outbox.Position, limit, bytes int) (page []Parked, more bool, err error)
	// Pending lists rows that are pending in tables with delete or mark, from a cursor of the store ("" = the beginning), at
	// most limit; and a barrier that comes after all of them in the log. Rows that were settled with a parked delivery are left
	// out. Those with parked deliveries whose row was never settled are in: its other deliveries are in memory, or were in the
	// memory of a relay that is gone.
	Pending(ctx context.Context, cursor string, limit int) (*PendingRows, error)
	// Fetch reads those of the rows that are still pending and not parked at every sink, as messages at the
	// given position (Commit of the barrier, N from the given one on), in the order in which rows are swept. parkedAt is as in
	// source.Batch. It may end once they have about so many bytes, with at least one: the caller asks for the rest again.
	Fetch(ctx context.Context, rows []RowRef, at outbox.Position, bytes int) (msgs []*outbox.Message, parkedAt [][]string, err error)
	// Requests returns what operators asked for and is not done, in order.
	Requests(ctx context.Context) ([]Request, error)
	// Lanes names the lanes a request will change, at most limit, so that no run of theirs is in flight while it is applied.
	Lanes(ctx context.Context, r *Request, limit int) ([]Lane, error)
	// Apply carries out a part of a request for these lanes in one transaction (at most 1,000 deliveries), and records
	// progress in its result. A request that concerns no lane (pause, resume of a sink) has none.
	Apply(ctx context.Context, r *Request, lanes []Lane) (*Applied, error)
	// Starting records, in a cautious start, the message that is about to be decoded, in a transaction of its own; none where
	// the relay has survived it.
	Starting(ctx context.Context, s CrashCandidate) error
	// Save writes a checkpoint without outcomes.
	Save(ctx context.Context, c *Checkpoint) error
	// Ping proves that the session still holds the lock, and tells what the database's clock says; the zero time where that is not
	// known.
	Ping(ctx context.Context) (time.Time, error)
	// Close ends the session and releases the lock.
	Close(ctx context.Context) error
}

// A Cleaner is a Store that removes delivered rows whose retention is over, in tables that have one.
type Cleaner interface {
	// Clean looks at a bounded number of rows behind a cursor of the store ("" = the beginning), and removes those that are
	// delivered, by their own columns, for longer than their table's retention. It never removes a row of which a delivery is
	// parked, nor one that is locked. It returns how many it removed, and where to go on; "" = the end was reached.
	Clean(ctx context.Context, cursor string) (removed int, next string, err error)
}

// PendingRows is a list of rows that the table says are pending.
type PendingRows struct {
	Rows    []RowRef
	Cursor  string // where the next call goes on; "" = the end was reached
	Barrier string
	// Commit is the barrier's ordinal for positions of rows that are found to be missing in the log.
	Commit uint64
}

// A RowRef names a row of an outbox table.
type RowRef struct{ Table, ID string }

// A Verb is something an operator asks for.
type Verb string

// Verbs.
const (
	VerbReplay    Verb = "replay"     // dead deliveries become due; attempts start again
	VerbEdit      Verb = "edit"       // change a dead delivery's message and replay it
	VerbDrop      Verb = "drop"       // give a delivery up
	VerbSkip      Verb = "skip"       // heads of groups no longer block, dead ones or, with States, retrying ones, which become dead
	VerbHold      Verb = "hold"       // a group waits until resume
	VerbResume    Verb = "resume"     // ends hold, or a sink's pause
	VerbPause     Verb = "pause"      // a sink gets no deliveries until resume
	VerbAcceptGap Verb = "accept-gap" // go on behind a gap of the log
)

// A Request is a row of tailbox_request: what an operator asked for, and the audit of it.
type Request struct {
	ID        int64
	Verb      Verb
	Selection Selection
	Reason    string
	// By is who asked: as the database knows the login, or the name of the token by which the HTTP API knows the client.
	By string
}

// A Selection says which parked deliveries, groups or sinks a request is about. Fields that are set must all match; IDs and
// Groups match if one of theirs does.
type Selection struct {
	IDs  []string `json:"ids,omitempty"`
	Sink string   `json:"sink,omitempty"`
	// Table is the outbox table that the messages are of, as in outbox.Message.Table or without its schema: an id may be one of
	// several tables.
	Table  string   `json:"table,omitempty"`
	Sinks  []string `json:"sinks,omitempty"` // for pause and resume of sinks
	Groups []string `json:"groups,omitempty"`
	// Type, Topic and Tenant are globs. Reason is one for last_error or error_class.
	Type   string `json:"type,omitempty"`
	Topic  string `json:"topic,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Search is a text that is part of the message's id, its group or its key.
	Search string  `json:"q,omitempty"`
	States []State `json:"states,omitempty"` // default dead
	Limit  int     `json:"limit,omitempty"`
	All    bool    `json:"all,omitempty"`
	// From is the Resume of the checkpoint behind which the operator saw the gap that VerbAcceptGap accepts; required there.
	From source.Resume `json:"from,omitempty"`
	// Unrouted selects deliveries at the sink "", which Sink cannot name: messages that no sink could be chosen for.
	Unrouted bool `json:"unrouted,omitempty"`
	// AllowReorder: replay even what its group has passed.
	AllowReorder bool `json:"allow_reorder,omitempty"`
	// Refresh: replay with what the user's row says now; deliveries whose row is not pending are left alone. It is how a
	// store asks for the replay of rows that an operator reset to pending with plain SQL (R11).
	Refresh bool `json:"refresh,omitempty"`
	// Edit is what VerbEdit changes; nil fields stay.
	Edit *Edit `json:"edit,omitempty"`
}

// AtSink is the sink that the selection is limited to; ok is false if any will do.
func (s *Selection) AtSink() (name string, ok bool) { return s.Sink, s.Sink != "" || s.Unrouted }

// Narrows reports whether the selection is limited by anything but states and a number.
func (s *Selection) Narrows() bool {
	_, atSink := s.AtSink()
	return atSink || len(s.IDs)+len(s.Groups) > 0 || s.Table+s.Type+s.Topic+s.Tenant+s.Reason+s.Search != ""
}

// An Edit replaces parts of a dead delivery's message.
type Edit struct {
	Payload *[]byte           `json:"payload,omitempty"`
	Type    *string           `json:"type,omitempty"`
	Topic   *string           `json:"topic,omitempty"`
	Key     *string           `json:"key,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	NewID   string            `json:"new_id,omitempty"`
}

// Applied is what a part of a request did.
type Applied struct {
	// Open are lanes that nothing blocks any more, Blocked lanes that are blocked now.
	Open    []Lane
	Blocked []Lane
	// Changed counts deliveries.
	Changed int
	// Done: the request is complete, and done_at is set. Refused is why it ended without its last part: the server refuses that,
	// and would refuse it again. Nothing of the part was done.
	Done    bool
	Refused string
}

// A LockedError matches ErrLocked, and says who holds the lock.
type LockedError struct {
	Pipeline string
	// Holder is the session, such as "role tailbox, pid 12, application_name tailbox_shop"; "" if nothing tells.
	Holder string
	// Foreign: the session is no tailbox of this pipeline. Fix ends it.
	Foreign bool
	Fix     string
}

// Error implements error.
func (e *LockedError) Error() string {
	who := ErrLocked.Error()
	switch {
	case e.Foreign:
		who = fmt.Sprintf("it is held by a session that is no tailbox of this pipeline: %s: find out what it is, and end it (%s)", e.Holder, e.Fix)
	case e.Holder != "":
		who += ": " + e.Holder
	}
	return fmt.Sprintf("take the lock of pipeline %s: %s", e.Pipeline, who)
}

// Is implements errors.Is.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

var (
	// ErrLocked means that another relay holds the pipeline's lock.
	ErrLocked = errors.New("the pipeline's lock is held by another relay")
	// ErrNoTables means that the relay's own tables are missing. To fix it, run tailbox init.
	ErrNoTables = errors.New("the tables tailbox_* are missing: run tailbox init")
	// ErrOldTables means that an earlier version made the relay's own tables, and migrations are missing.
	ErrOldTables = errors.New("the tables tailbox_* are of an earlier version: run tailbox init, which brings them up to date")
	// ErrNewTables means that a newer version changed what the relay's own tables mean.
	ErrNewTables = errors.New("the tables tailbox_* belong to a newer version: run a newer tailbox")
)
