package mysqltest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// Patience bounds every wait for an event.
const Patience = 4 * time.Minute

// OnKinds runs a test on both kinds of server.
func OnKinds(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// Shaped is a table of a known shape.
func Shaped(shape, name string) sourcetest.Table {
	s, _ := outbox.ShapeNamed(shape)
	return sourcetest.Table{Table: outbox.Table{Name: name, Shape: shape, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}}
}

// A SourceRig is a database with an outbox table, a connection of an application, and a source.
type SourceRig struct {
	*Database
	T   testing.TB
	Ctx context.Context
	App *client.Conn
	// Src is the present source, as newSource made it.
	Src       source.Source
	newSource func(server.Config) source.Source
}

// NewSourceRig makes tables, and a source that reads them.
func NewSourceRig(t testing.TB, my *servers.My, newSource func(server.Config) source.Source, tables ...sourcetest.Table) *SourceRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	t.Cleanup(cancel)
	if tables == nil {
		tables = []sourcetest.Table{Shaped("tailbox", "outbox")}
	}
	r := &SourceRig{T: t, Ctx: ctx, newSource: newSource, Database: NewDatabase(t, my, sourcetest.Setup{Tables: tables})}
	r.App = r.Connect()
	r.Renew()
	return r
}

// Connect opens a further connection of an application.
func (r *SourceRig) Connect() *client.Conn {
	r.T.Helper()
	conn, err := r.My.Connect(r.Ctx, r.DB)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Exec runs statements on the application's connection.
func (r *SourceRig) Exec(statements ...string) {
	r.T.Helper()
	for _, sql := range statements {
		if _, err := r.App.Execute(sql); err != nil {
			r.T.Fatalf("execute %.300q: %v", sql, err)
		}
	}
}

// One is the first value of a query.
func (r *SourceRig) One(sql string) string {
	r.T.Helper()
	res, err := r.App.Execute(sql)
	if err != nil {
		r.T.Fatalf("query %q: %v", sql, err)
	}
	text, err := res.GetString(0, 0)
	if err != nil {
		r.T.Fatalf("query %q: %v", sql, err)
	}
	return text
}

// Establish takes a position with the rig's source.
func (r *SourceRig) Establish() source.Resume {
	r.T.Helper()
	snap, err := r.Src.Establish(r.Ctx)
	if err != nil {
		r.T.Fatalf("establish: %v", err)
	}
	if err := snap.Close(r.Ctx); err != nil {
		r.T.Fatal(err)
	}
	return snap.Resume()
}

// Insert is a statement that writes messages with these ids into outbox.
func Insert(ids ...int) string {
	var rows []string
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf("('%s', 'T', 'g', '%d')", Number(id), id))
	}
	return "INSERT INTO outbox (id, type, message_group, payload) VALUES " + strings.Join(rows, ", ")
}

// Number is the id of a number.
func Number(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// ShortID is the number of an id.
func ShortID(id string) string {
	return strings.TrimLeft(strings.TrimPrefix(id, "00000000-0000-0000-0000-"), "0")
}

// A Tail is a Run in the background.
type Tail struct {
	R       *SourceRig
	Cancel  context.CancelFunc
	Batches chan *source.Batch
	Done    chan error
	// Messages that came, and the last place to resume.
	Messages []*outbox.Message
	Resume   source.Resume
}

// Run runs the rig's source in the background.
func (r *SourceRig) Run(from source.Resume) *Tail {
	ctx, cancel := context.WithCancel(r.Ctx)
	x := &Tail{R: r, Cancel: cancel, Batches: make(chan *source.Batch), Done: make(chan error, 1)}
	go func() {
		x.Done <- r.Src.Run(ctx, source.Start{From: from, Log: 1}, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.Batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.T.Cleanup(cancel)
	return x
}

// Next waits for a batch.
func (x *Tail) Next(what string) *source.Batch {
	x.R.T.Helper()
	select {
	case b := <-x.Batches:
		x.Messages = append(x.Messages, b.Messages...)
		if b.Resume != "" {
			x.Resume = b.Resume
		}
		return b
	case err := <-x.Done:
		x.R.T.Fatalf("waited for %s; Run ended: %v", what, err)
	case <-time.After(Patience):
		x.R.T.Fatalf("waited %v for %s; got %s", Patience, what, x.IDs())
	}
	return nil
}

// Until waits until messages with these ids have come, and the end of their transaction.
func (x *Tail) Until(ids string) {
	x.R.T.Helper()
	n := len(strings.Fields(ids))
	for {
		b := x.Next("messages " + ids)
		if len(x.Messages) >= n && b.Resume != "" {
			break
		}
	}
	if got := x.IDs(); got != ids {
		x.R.T.Fatalf("messages: got %s, want %s", got, ids)
	}
}

// IDs are the numbers of the messages that came.
func (x *Tail) IDs() string {
	var ids []string
	for _, m := range x.Messages {
		ids = append(ids, ShortID(m.ID))
	}
	return strings.Join(ids, " ")
}

// Fails waits for the end of Run.
func (x *Tail) Fails() error {
	x.R.T.Helper()
	for {
		select {
		case b := <-x.Batches:
			x.Messages = append(x.Messages, b.Messages...)
		case err := <-x.Done:
			return err
		case <-time.After(Patience):
			x.R.T.Fatalf("Run did not end in %v", Patience)
		}
	}
}

// Stop ends Run, which may not fail.
func (x *Tail) Stop() {
	x.R.T.Helper()
	x.Cancel()
	if err := x.Fails(); err != nil {
		x.R.T.Fatalf("Run ended: %v", err)
	}
}

// Renew makes a source anew, with the configuration as it is now.
func (r *SourceRig) Renew() { r.Src = r.newSource(r.Cfg) }

// Sweep reads all rows at a new position.
func (r *SourceRig) Sweep() (ms []*outbox.Message) {
	r.T.Helper()
	snap, err := r.Src.Establish(r.Ctx)
	if err != nil {
		r.T.Fatal(err)
	}
	defer func() { _ = snap.Close(r.Ctx) }()
	if _, err := snap.Judge(r.Ctx, source.Known{}); err != nil {
		r.T.Fatal(err)
	}
	err = snap.Pending(r.Ctx, 1, func(_ context.Context, b *source.Batch) error {
		ms = append(ms, b.Messages...)
		return nil
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return ms
}
