package sourcetest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// patience bounds every wait for an event.
const patience = 4 * time.Minute

// A rig is a database, and what a case does with it. Its methods fail the test.
type rig struct {
	t   *testing.T
	ctx context.Context // has a case's deadline, so that no call of it hangs for ever
	k   Kind
	db  Database
	src source.Source
	app Conn // a connection for what needs no other one
	// tables as the database has them; the first one is the one that most cases use.
	tables []Table
	st     checkpoint.Store
	pinged time.Time
}

// newRig opens a database.
func newRig(t *testing.T, k Kind, s Setup) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, k: k, db: k.Open(t, s)}
	r.tables = r.db.Tables()
	if len(r.tables) != len(s.Tables) {
		t.Fatalf("the database has %d tables, want %d", len(r.tables), len(s.Tables))
	}
	r.src = r.db.Source()
	r.app = r.conn()
	return r
}

// must fails the test with what was tried.
func (r *rig) must(err error, format string, args ...any) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func (r *rig) conn() Conn {
	r.t.Helper()
	c, err := r.db.Conn(r.ctx)
	r.must(err, "connect")
	r.t.Cleanup(func() { _ = c.Close(context.WithoutCancel(r.ctx)) })
	return c
}

// insert writes messages into the first table in one statement.
func (r *rig) insert(ms ...*outbox.Message) {
	r.t.Helper()
	r.must(r.app.Insert(r.ctx, r.tables[0], ms...), "insert")
}

// establish makes a position at the log's present end.
func (r *rig) establish() source.Resume {
	r.t.Helper()
	snap, err := r.src.Establish(r.ctx)
	r.must(err, "establish")
	r.must(snap.Close(r.ctx), "close snapshot")
	if snap.Resume() == "" {
		r.t.Fatal("a snapshot without a position")
	}
	return snap.Resume()
}

// pingEvery is how often a store is pinged beside a wait, as a relay does all the time: who says nothing for 10 seconds loses its
// session. A wait of a source can be long where other cases have transactions open on the same server.
const pingEvery = 3 * time.Second

// ping shows a store that is open that its user lives. Whether the session has been lost is for the case to find out.
func (r *rig) ping() {
	r.pinged = time.Now()
	if r.st != nil {
		_, _ = r.st.Ping(r.ctx)
	}
}

// wantHeld wants the store to hold its lock, and to tell the time: all servers here have this machine's clock.
func (r *rig) wantHeld() {
	r.t.Helper()
	asked := time.Now()
	now, err := r.st.Ping(r.ctx)
	r.must(err, "ping")
	const blurred = time.Second // by a host that sets its clock
	if now.Before(asked.Add(-blurred)) || now.After(time.Now().Add(blurred)) {
		r.t.Errorf("the database's clock: got %v at %v", now, asked)
	}
}

// until polls.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// rows shows the first table: the ids that are there or, with a status column, id status attempts error, and ! where
// delivered_at is set.
func (r *rig) rows() string { return r.rowsOf(r.tables[0]) }

func (r *rig) rowsOf(table Table) string {
	r.t.Helper()
	found, err := r.db.Rows(r.ctx, table)
	r.must(err, "read rows")
	var lines []string
	for _, row := range found {
		line := Short(row.ID)
		if table.Columns.Status != "" {
			line += fmt.Sprintf(" %s %d", row.Status, row.Attempts)
			if row.LastError != "" {
				line += " " + row.LastError
			}
			if row.Delivered {
				line += " !"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// equal compares values that are simple, or have no unexported fields.
func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// ids lists messages.
func ids(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, Short(m.ID))
	}
	return strings.Join(s, " ")
}

// endedContext is a context that has ended.
func (r *rig) endedContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	return ctx, cancel
}
