package e2e

import (
	"context"
	"strings"
	"testing"
)

// Kinds are the kinds of sources, as source.kind names them.
func Kinds() []string { return []string{"postgres", "mysql", "mariadb", "mongodb"} }

// onKinds runs a test for each kind of source.
func onKinds(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// A database is the server and the two tables under a bed, as far as kinds of sources differ. Its methods share no code with
// the relay, and are safe for concurrent use.
type database interface {
	// url is source.url, and source the lines of its section beside kind, url and tables.
	url() string
	source() []string
	// kill ends the server with SIGKILL; start starts it again on the same data.
	kill() error
	start() error
	// writer connects as an application. Prepare is a statement for the session, "" for none.
	writer(ctx context.Context, prepare string) (writer, error)
	// away reports whether an application's error only says that the server goes down or comes up, or ends a transaction that is to be begun again.
	away(err error) bool
	// follower reads what is committed, in commit order, into t.
	follower(t *Truth) follower
	// pending lists the ids of messages that are not durably settled as delivered: rows that are still pending, and parked
	// deliveries. It shows what a crash at this moment may repeat. What the log shows before it is visible is waited for, but
	// not for ever: a frozen relay may hold a transaction open.
	pending(ctx context.Context) ([]int64, error)
	// unsettled tells what is not settled, one text a kind of it.
	unsettled(ctx context.Context) ([]string, error)
	// confirmedEarly reports whether the server may discard log that a checkpoint still needs; "" if not.
	confirmedEarly(ctx context.Context) (string, error)
}

// A writer is one application's session. It is used by one goroutine.
type writer interface {
	// ids takes n ids that nobody else gets, ascending.
	ids(ctx context.Context, n int) ([]int64, error)
	// begin begins a transaction. With alone one row is all that it is going to insert, and it is sure to be committed, so
	// that where it makes a difference the row is written without a transaction.
	begin(ctx context.Context, alone bool) error
	// insert writes rows of one table with one statement.
	insert(ctx context.Context, table string, rows []written) error
	// remove deletes rows of outbox that the same transaction inserted.
	remove(ctx context.Context, ids []int64) error
	// commit or roll back.
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
	// broken reports whether the session is of no use any more.
	broken() bool
	close()
}

// written is a row that an application writes. Rows of outbox have a group, made of their key.
type written struct {
	id      int64
	key     string
	group   string // "": none
	topic   string
	payload []byte
}

// nextIDs takes ids for databases that have no sequence for two tables.
func (b *Bed) nextIDs(n int) []int64 {
	last := b.lastID.Add(int64(n))
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = last - int64(n-1-i)
	}
	return ids
}

// Pending lists the ids of messages that are not durably settled as delivered. It shows what a crash at this moment may repeat.
func (b *Bed) Pending(ctx context.Context) ([]int64, error) { return b.database.pending(ctx) }

// Unsettled tells what the database shows as not settled, "" if nothing.
func (b *Bed) Unsettled() string {
	what, err := b.database.unsettled(context.Background())
	if err != nil {
		return err.Error()
	}
	return strings.Join(what, ", ")
}

// ConfirmedEarly reports whether the server was told more than the checkpoint in the database says; "" if not. While a relay
// works the two are not seen at one moment; look when it is dead or frozen.
func (b *Bed) ConfirmedEarly() string {
	text, err := b.database.confirmedEarly(context.Background())
	if err != nil {
		return err.Error()
	}
	return text
}
