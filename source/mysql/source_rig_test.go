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

// A sourceBase is a database with an outbox table, a connection of an application, and a source.
type sourceBase struct {
	*kitBase
	t    testing.TB
	ctx  context.Context
	conn *client.Conn
	// src is the present source, as newSource made it.
	src       source.Source
	newSource func(config) source.Source
}

// rigWithSource makes tables, and a source that reads them.
func rigWithSource(t testing.TB, my *servers.My, newSource func(config) source.Source, tables ...sourcetest.Table) *sourceBase {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	if tables == nil {
		tables = []sourcetest.Table{shaped("tailbox", "outbox")}
	}
	r := &sourceBase{t: t, ctx: ctx, newSource: newSource, kitBase: openOn(t, my, sourcetest.Setup{Tables: tables})}
	r.conn = r.connect()
	r.renew()
	return r
}

func (r *sourceBase) connect() *client.Conn {
	r.t.Helper()
	conn, err := r.my.Connect(r.ctx, r.db)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// exec runs statements on the application's connection.
func (r *sourceBase) exec(statements ...string) {
	r.t.Helper()
	for _, sql := range statements {
		if _, err := r.conn.Execute(sql); err != nil {
			r.t.Fatalf("execute %.300q: %v", sql, err)
		}
	}
}

func (r *sourceBase) one(sql string) string {
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

func (r *sourceBase) establish() source.Resume {
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

// A tail is a Run in the background.
type tail struct {
	r       *sourceBase
	cancel  context.CancelFunc
	batches chan *source.Batch
	done    chan error
	// messages that came, and the last place to resume.
	messages []*outbox.Message
	resume   source.Resume
}

func (r *sourceBase) run(from source.Resume) *tail {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &tail{r: r, cancel: cancel, batches: make(chan *source.Batch), done: make(chan error, 1)}
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
func (x *tail) next(what string) *source.Batch {
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
func (x *tail) until(ids string) {
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

func (x *tail) ids() string {
	var ids []string
	for _, m := range x.messages {
		ids = append(ids, shortID(m.ID))
	}
	return strings.Join(ids, " ")
}

// fails waits for the end of Run.
func (x *tail) fails() error {
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

func (x *tail) stop() {
	x.r.t.Helper()
	x.cancel()
	if err := x.fails(); err != nil {
		x.r.t.Fatalf("Run ended: %v", err)
	}
}

// renew makes a source anew, with the configuration as it is now.
func (r *sourceBase) renew() { r.src = r.newSource(r.cfg) }

// sweep reads all rows at a new position.
func (r *sourceBase) sweep() (ms []*outbox.Message) {
	r.t.Helper()
	snap, err := r.src.Establish(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = snap.Close(r.ctx) }()
	if _, err := snap.Judge(r.ctx, source.Known{}); err != nil {
		r.t.Fatal(err)
	}
	err = snap.Pending(r.ctx, 1, func(_ context.Context, b *source.Batch) error {
		ms = append(ms, b.Messages...)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ms
}
