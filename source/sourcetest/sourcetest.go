// Package sourcetest is the kit that every kind of source, and its store, passes against the real server. It holds them
// to the contracts of package source and package checkpoint: what was committed is emitted, in commit order, with
// positions that never change and places to go on from; and what the store says is settled, parked or held is what
// the database says after every crash.
//
// A kind's test fills in a Kind, and calls Source and Store. The kit knows nothing of any server: all that it does to
// one goes through Kind, Database and Conn.
package sourcetest

import (
	"context"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A Kind says how to test one kind of source. Functions that are nil, and whatever else a kind cannot do, are named in
// Lacks with the reason: a nil function without a reason fails its cases.
type Kind struct {
	// Open makes an empty database with the outbox tables and the relay's own tables, for nobody but this test, and takes
	// it away at the test's end. Databases are used in parallel, so one server may hold many.
	Open func(t *testing.T, s Setup) Database

	// IDs are the types that an id column may have, each with two ids or more, as Message.ID has them. The names of the
	// types are the kind's own. They come back in Table.IDType.
	IDs map[string][]string
	// TextID is the one of IDs that may be any text, even the empty one.
	TextID string
	// Payloads are the types that a payload column may have, with what is written and read. They come back in
	// Table.PayloadType.
	Payloads map[string][]Payload
	// Counted are the reasons for which this kind's log holds what it ignores, where the kit updates, deletes and
	// truncates: what Setup.Ignored gets. Empty: the log does not hold them.
	Counted []string
	// ReadsOn: a source's driver may read on by itself where its connection ended, so Run need not end with an error then.
	ReadsOn bool
	// Polls: the source reads one table in the order of its sequence column, and not the log. Each row has a Commit of its own.
	Polls bool
	// ResumeInside: reading can start again at any event, so a Resume may stand inside a transaction (MongoDB).
	ResumeInside bool

	// Kill ends the session of a store at the server, as a network or an operator does. The store does not know.
	Kill func(ctx context.Context, db Database, st checkpoint.Store) error
	// Txn is the Message.Txn that rows of the open transaction will have. It is for rows that are settled before they are
	// visible.
	Txn func(ctx context.Context, c Conn) (uint64, error)
	// AddColumn adds a column that may be NULL to a table, and takes effect for connections that are open.
	AddColumn func(ctx context.Context, db Database, table Table, name string) error
	// DropTable drops a table.
	DropTable func(ctx context.Context, db Database, table Table) error
	// CreateTable makes a table of the Setup again that was dropped, as an application does that knows nothing of the relay.
	CreateTable func(ctx context.Context, db Database, table Table) error
	// NullStatus lets the status of a table be NULL, and makes it so in rows.
	NullStatus func(ctx context.Context, db Database, table Table, ids ...string) error
	// Outlast waits until a source that reads nothing would have been given up by the server, if it did not keep up
	// the connection.
	Outlast func(ctx context.Context, db Database) error
	// Cut ends the connection on which the database's source reads.
	Cut func(ctx context.Context, db Database) error
	// Restart stops the server of a database of its own (Setup.Own), and starts it again.
	Restart func(ctx context.Context, db Database) error
	// Number deletes a row, and writes a message with a number that is free then. It is for kinds that poll.
	Number func(ctx context.Context, db Database, table Table, m *outbox.Message, number uint64, instead string) error
	// Gap makes every position that was established so far unreadable: a dropped slot, a purged binlog, an oplog that
	// rolled over. The database is one with a server of its own.
	Gap func(ctx context.Context, db Database) error

	// Refuse makes the server refuse whatever gives a delivery to the sink mail the type "refused", or takes the time from one of
	// the group "stay", of the deliveries that are parked.
	Refuse func(ctx context.Context, db Database) error
	// Forge writes a request that is done, is neither a hold nor a pause, and says that the sink forged is paused by it.
	Forge func(ctx context.Context, db Database) error
	// RefuseDead makes the server refuse whatever gives a row of the table the status "dead".
	RefuseDead func(ctx context.Context, db Database, t Table) error

	// Business is a table that feedback writes to.
	Business *Business

	// Lacks names what this kind cannot do, or a case that it cannot pass, with the reason. Keys are the constants Can… and
	// names of cases, such as "CommitOrder".
	Lacks map[string]string
}

// What a kind may lack, beside whole cases.
const (
	CanSavepoint   = "savepoint"
	CanTruncate    = "truncate"
	CanKill        = "kill"
	CanTxn         = "txn"
	CanAddColumn   = "add column"
	CanDropTable   = "drop table"
	CanCreateTable = "create table"
	CanOutlast     = "outlast"
	CanCut         = "cut"
	CanRestart     = "restart"
	CanGap         = "gap"
	CanFeedBack    = "feed back"
	CanRefuse      = "refuse"
)

// A Setup says what database a case needs.
type Setup struct {
	// Tables without a Schema: that is the kind's choice.
	Tables []Table
	// Start is source.start: "pending", "now" or "".
	Start string
	// MaxMessage is max_message in bytes; 0 = the default.
	MaxMessage int
	// Ignored is what the kind's configuration gets. The log holds updates, deletes and truncates where it can.
	Ignored func(why string, n int)
	// Cut says that the case ends connections of readers (Kind.Cut).
	Cut bool
	// Own asks for a server that nobody else uses, because the case breaks it.
	Own bool
}

// A Table is an outbox table as configured, and what the kind needs to know to make it: the columns that Columns names,
// of the types of the kind's `tailbox init`.
type Table struct {
	outbox.Table
	// IDType and PayloadType are keys of Kind.IDs and Kind.Payloads. "" is what `tailbox init` makes of the shape: there ids
	// are UUIDs in text.
	IDType, PayloadType string
	// Wide: id, type, topic, group, key, tenant, content type and correlation id are texts of any length, of which the id has a unique index.
	Wide bool
}

// A Payload is what an application writes, and what the message holds. Nil is NULL.
type Payload struct{ Written, Read []byte }

// A Database is what the kit has to do with one. Its methods may be called from several goroutines. Errors fail the
// case, but for those of Store.
type Database interface {
	// Tables are those of the Setup, with Schema as Message.Table has it.
	Tables() []Table
	// Source returns another source of the one pipeline of this database.
	Source() source.Source
	// Store opens the pipeline's store.
	Store(ctx context.Context) (checkpoint.Store, error)
	// Conn connects as an application does.
	Conn(ctx context.Context) (Conn, error)
	// Rows reads a table, by id.
	Rows(ctx context.Context, table Table) ([]Row, error)
	// Reset sets rows to pending, as an operator does with plain SQL. The table has a status column.
	Reset(ctx context.Context, table Table, ids ...string) error
	// Parked reads all deliveries of the pipeline that are in one of the states of package checkpoint, by position and
	// sink. Message needs no more than ID and Position; NextAttempt may be anything.
	Parked(ctx context.Context) ([]checkpoint.Parked, error)
	// Ask writes a request as the command line does, and returns its ID.
	Ask(ctx context.Context, r *checkpoint.Request) (int64, error)
	// Answer reads what a request did so far.
	Answer(ctx context.Context, id int64) (Answer, error)
}

// A Conn is an application's connection. One goroutine uses it. Outside a transaction each call is one.
type Conn interface {
	Begin(ctx context.Context) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	// Savepoint sets the one savepoint, and RollbackTo goes back to it.
	Savepoint(ctx context.Context) error
	RollbackTo(ctx context.Context) error
	// Insert writes messages in one statement, with all that the table has columns for. See Table.Values.
	Insert(ctx context.Context, table Table, ms ...*outbox.Message) error
	// Update writes type and payload of messages that are there.
	Update(ctx context.Context, table Table, ms ...*outbox.Message) error
	// Delete removes rows by id.
	Delete(ctx context.Context, table Table, ids ...string) error
	Truncate(ctx context.Context, table Table) error
	Close(ctx context.Context) error
}

// A Row is a row of an outbox table. Without a status column there is the ID only.
type Row struct {
	ID        string
	Status    string
	Attempts  int
	LastError string
	// Delivered: delivered_at is set.
	Delivered bool
	// Receipt is what the column receipt holds, where there is one.
	Receipt string
}

// An Answer is what a request did so far. Error is why it could not be carried out.
type Answer struct {
	Done             bool
	Changed, Refused int
	Error            string
}

// A testCase is one case. Needs are capabilities: constants Can….
type testCase struct {
	name  string
	run   func(*testing.T, Kind)
	needs []string
}

// Source runs the kit's cases for sources.
func Source(t *testing.T, k Kind) {
	run(t, k, []testCase{
		{name: "CommitOrder", run: testCommitOrder},
		{name: "StatementOrder", run: testStatementOrder},
		{name: "Rollback", run: testRollback},
		{name: "Savepoint", run: testSavepoint, needs: []string{CanSavepoint}},
		{name: "Ignored", run: testIgnored},
		{name: "ConcurrentWriters", run: testConcurrentWriters},
		{name: "ResumeAnywhere", run: testResumeAnywhere},
		{name: "LargeTransaction", run: testLargeTransaction},
		{name: "Content", run: testContent},
		{name: "Payloads", run: testPayloads},
		{name: "IDTypes", run: testIDTypes},
		{name: "NoID", run: testNoID},
		{name: "Groups", run: testGroups},
		{name: "References", run: testReferences},
		{name: "Big", run: testBig},
		{name: "TooLarge", run: testTooLarge},
		{name: "Bounds", run: testBounds},
		{name: "Progress", run: testProgress},
		{name: "Confirm", run: testConfirm},
		{name: "Barrier", run: testBarrier},
		{name: "Stop", run: testStop},
		{name: "EndedContext", run: testEndedContext},
		{name: "EmitError", run: testEmitError},
		{name: "SafeMode", run: testSafeMode},
		{name: "BlockedEmit", run: testBlockedEmit, needs: []string{CanOutlast}},
		{name: "AddColumn", run: testAddColumn, needs: []string{CanAddColumn}},
		{name: "DropTable", run: testDropTable, needs: []string{CanDropTable}},
		{name: "Examine", run: testExamine},
		{name: "Gap", run: testGap, needs: []string{CanGap}},
		{name: "Cut", run: testCut, needs: []string{CanCut}},
		{name: "Restart", run: testRestart, needs: []string{CanRestart}},
		{name: "RecreatedTable", run: testRecreatedTable, needs: []string{CanDropTable, CanCreateTable}},
		{name: "TakeOver", run: testTakeOver},
		{name: "SecondRelay", run: testSecondRelay},
		{name: "SnapshotOrLog", run: testSnapshotOrLog},
		{name: "OpenTransaction", run: testOpenTransaction},
		{name: "Judge", run: testJudge},
		{name: "NullStatus", run: testNullStatus},
		{name: "SweepOrder", run: testSweepOrder},
		{name: "SweepOfParked", run: testSweepOfParked},
	})
}

// Poll runs the cases for sources, and those for sources that poll.
func Poll(t *testing.T, k Kind) {
	Source(t, k)
	run(t, k, []testCase{
		{name: "SequenceOrder", run: testSequenceOrder},
		{name: "OutOfOrder", run: testOutOfOrder},
		{name: "LateRow", run: testLateRow},
		{name: "NumberUsedAgain", run: testNumberUsedAgain},
	})
}

// Store runs the kit's cases for stores.
func Store(t *testing.T, k Kind) {
	run(t, k, []testCase{
		{name: "Lock", run: testLock},
		{name: "Fence", run: testFence, needs: []string{CanKill}},
		{name: "FrozenHolder", run: testFrozenHolder},
		{name: "CheckpointRoundTrip", run: testCheckpointRoundTrip},
		{name: "UncleanStarts", run: testUncleanStarts, needs: []string{CanKill}},
		{name: "Load", run: testLoad},
		{name: "SettleRows", run: testSettleRows},
		{name: "SettleNothing", run: testSettleNothing},
		{name: "JustRead", run: testJustRead},
		{name: "Gone", run: testGone},
		{name: "Invisible", run: testInvisible, needs: []string{CanTxn}},
		{name: "LockedRows", run: testLockedRows},
		{name: "LockedParked", run: testLockedParked},
		{name: "BusyTable", run: testBusyTable},
		{name: "BeforeTheRow", run: testBeforeTheRow},
		{name: "View", run: testView},
		{name: "Rerouted", run: testRerouted},
		{name: "ManyLanes", run: testManyLanes},
		{name: "ParkedRoundTrip", run: testParkedRoundTrip},
		{name: "Tries", run: testTries},
		{name: "ParkAgain", run: testParkAgain},
		{name: "ParkedIDUsedAgain", run: testParkedIDUsedAgain},
		{name: "LanePromotion", run: testLanePromotion},
		{name: "OwnLanes", run: testOwnLanes},
		{name: "Names", run: testNames},
		{name: "Page", run: testPage},
		{name: "Unroutable", run: testUnroutable},
		{name: "Supersede", run: testSupersede},
		{name: "Feedback", run: testFeedback, needs: []string{CanFeedBack}},
		{name: "FeedbackSuperseded", run: testFeedbackSuperseded, needs: []string{CanFeedBack}},
		{name: "FeedbackFails", run: testFeedbackFails, needs: []string{CanFeedBack}},
		{name: "FeedbackMeetsLocks", run: testFeedbackMeetsLocks, needs: []string{CanFeedBack}},
		{name: "FeedbackFenced", run: testFeedbackFenced, needs: []string{CanFeedBack, CanKill}},
		{name: "Receipts", run: testReceipts},
		{name: "FeedbackLater", run: testFeedbackLater, needs: []string{CanFeedBack}},
		{name: "DueIsFair", run: testDueIsFair},
		{name: "DueLater", run: testDueLater},
		{name: "ReadAgain", run: testReadAgain},
		{name: "DueProbe", run: testDueProbe},
		{name: "DueProbeAmongMany", run: testDueProbeAmongMany},
		{name: "Priority", run: testPriority},
		{name: "Retention", run: testRetention},
		{name: "Tenants", run: testTenants},
		{name: "Pending", run: testPending},
		{name: "PendingBesideWriters", run: testPendingBesideWriters},
		{name: "Fetch", run: testFetch},
		{name: "Reset", run: testReset},
		{name: "Requests", run: testRequests},
		{name: "Replay", run: testReplay},
		{name: "Selection", run: testSelection},
		{name: "Unrouted", run: testUnrouted},
		{name: "UnroutedRow", run: testUnroutedRow},
		{name: "RequestOrder", run: testRequestOrder},
		{name: "Reach", run: testReach},
		{name: "RequestInParts", run: testRequestInParts},
		{name: "Edit", run: testEdit},
		{name: "Drop", run: testDrop},
		{name: "Tables", run: testTables},
		{name: "ResetOfOneTable", run: testResetOfOneTable},
		{name: "EditOfOne", run: testEditOfOne},
		{name: "DroppedInFlight", run: testDroppedInFlight},
		{name: "Skip", run: testSkip},
		{name: "SkipRetrying", run: testSkipRetrying},
		{name: "DropRetrying", run: testDropRetrying},
		{name: "ReachRetrying", run: testReachRetrying},
		{name: "Hold", run: testHold},
		{name: "Pause", run: testPause},
		{name: "AcceptGap", run: testAcceptGap},
		{name: "BadRequests", run: testBadRequests},
		{name: "RefusedRequest", run: testRefusedRequest, needs: []string{CanRefuse, CanKill}},
		{name: "RefusedRow", run: testRefusedRow, needs: []string{CanRefuse}},
	})
}

func run(t *testing.T, k Kind, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, need := range append([]string{c.name}, c.needs...) {
				if why, lacks := k.Lacks[need]; lacks {
					t.Skipf("this kind lacks %q: %s", need, why)
				}
			}
			for _, need := range c.needs {
				if !k.can(need) {
					t.Fatalf("this kind can not %s, and gives no reason in Kind.Lacks", need)
				}
			}
			c.run(t, k)
		})
	}
}

func (k *Kind) can(what string) bool {
	switch what {
	case CanKill:
		return k.Kill != nil
	case CanTxn:
		return k.Txn != nil
	case CanAddColumn:
		return k.AddColumn != nil
	case CanDropTable:
		return k.DropTable != nil
	case CanCreateTable:
		return k.CreateTable != nil
	case CanOutlast:
		return k.Outlast != nil
	case CanCut:
		return k.Cut != nil
	case CanRestart:
		return k.Restart != nil
	case CanGap:
		return k.Gap != nil
	case CanFeedBack:
		return k.Business != nil
	case CanRefuse:
		return k.Refuse != nil
	}
	return true
}
