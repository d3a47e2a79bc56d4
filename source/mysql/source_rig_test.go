package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// patience bounds every wait for an event.
const patience = 4 * time.Minute

// onKinds runs a test on both kinds of server.
func onKinds(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// shaped is a table of a known shape.
func shaped(shape, name string) sourcetest.Table {
	s, _ := outbox.ShapeNamed(shape)
	return sourcetest.Table{Table: outbox.Table{Name: name, Shape: shape, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}}
}

// A sourceRig is a database with an outbox table, a connection of an application, and a source.
type sourceRig struct {
	*kitDatabase
	t    testing.TB
	ctx  context.Context
	conn *client.Conn
	src  *Source
}

func newSourceRig(t testing.TB, my *servers.My, tables ...sourcetest.Table) *sourceRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	if tables == nil {
		tables = []sourcetest.Table{shaped("tailbox", "outbox")}
	}
	r := &sourceRig{t: t, ctx: ctx, kitDatabase: openOn(t, my, sourcetest.Setup{Tables: tables})}
	r.conn = r.connect()
	r.src = New(r.cfg)
	return r
}

func (r *sourceRig) connect() *client.Conn {
	r.t.Helper()
	conn, err := r.my.Connect(r.ctx, r.db)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// exec runs statements on the application's connection.
func (r *sourceRig) exec(statements ...string) {
	r.t.Helper()
	for _, sql := range statements {
		if _, err := r.conn.Execute(sql); err != nil {
			r.t.Fatalf("execute %.300q: %v", sql, err)
		}
	}
}

func (r *sourceRig) one(sql string) string {
	r.t.Helper()
	res, err := r.conn.Execute(sql)
	if err != nil {
		r.t.Fatalf("query %q: %v", sql, err)
	}
	text, err := res.GetString(0, 0)
	if err != nil {
		r.t.Fatalf("query %q: %v", sql, err)
	}
	return text
}

func (r *sourceRig) establish() source.Resume {
	r.t.Helper()
	snap, err := r.src.Establish(r.ctx)
	if err != nil {
		r.t.Fatalf("establish: %v", err)
	}
	if err := snap.Close(r.ctx); err != nil {
		r.t.Fatal(err)
	}
	return snap.Resume()
}

// insert is a statement that writes messages with these ids into outbox.
func insert(ids ...int) string {
	var rows []string
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf("('%s', 'T', 'g', '%d')", number(id), id))
	}
	return "INSERT INTO outbox (id, type, message_group, payload) VALUES " + strings.Join(rows, ", ")
}

// number is the id of a number.
func number(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// shortID is the number of an id.
func shortID(id string) string {
	return strings.TrimLeft(strings.TrimPrefix(id, "00000000-0000-0000-0000-"), "0")
}

// A reader is a Run in the background.
type reader struct {
	r       *sourceRig
	cancel  context.CancelFunc
	batches chan *source.Batch
	done    chan error
	// messages that came, and the last place to resume.
	messages []*outbox.Message
	resume   source.Resume
}

func (r *sourceRig) run(from source.Resume) *reader {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &reader{r: r, cancel: cancel, batches: make(chan *source.Batch), done: make(chan error, 1)}
	go func() {
		x.done <- r.src.Run(ctx, source.Start{From: from, Log: 1}, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.t.Cleanup(cancel)
	return x
}

// next waits for a batch.
func (x *reader) next(what string) *source.Batch {
	x.r.t.Helper()
	select {
	case b := <-x.batches:
		x.messages = append(x.messages, b.Messages...)
		if b.Resume != "" {
			x.resume = b.Resume
		}
		return b
	case err := <-x.done:
		x.r.t.Fatalf("waited for %s; Run ended: %v", what, err)
	case <-time.After(patience):
		x.r.t.Fatalf("waited %v for %s; got %s", patience, what, x.ids())
	}
	return nil
}

// until waits until messages with these ids have come, and the end of their transaction.
func (x *reader) until(ids string) {
	x.r.t.Helper()
	n := len(strings.Fields(ids))
	for {
		b := x.next("messages " + ids)
		if len(x.messages) >= n && b.Resume != "" {
			break
		}
	}
	if got := x.ids(); got != ids {
		x.r.t.Fatalf("messages: got %s, want %s", got, ids)
	}
}

func (x *reader) ids() string {
	var ids []string
	for _, m := range x.messages {
		ids = append(ids, shortID(m.ID))
	}
	return strings.Join(ids, " ")
}

// fails waits for the end of Run.
func (x *reader) fails() error {
	x.r.t.Helper()
	for {
		select {
		case b := <-x.batches:
			x.messages = append(x.messages, b.Messages...)
		case err := <-x.done:
			return err
		case <-time.After(patience):
			x.r.t.Fatalf("Run did not end in %v", patience)
		}
	}
}

func (x *reader) stop() {
	x.r.t.Helper()
	x.cancel()
	if err := x.fails(); err != nil {
		x.r.t.Fatalf("Run ended: %v", err)
	}
}
