package stream

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// prepareXA leaves transactions prepared, each on a connection of its own.
func (r *sourceRig) prepareXA(name string, statements ...string) {
	r.T.Helper()
	x := "'" + r.DB + name + "'"
	c := r.Connect()
	for _, sql := range append(append([]string{"XA START " + x}, statements...), "XA END "+x, "XA PREPARE "+x) {
		if _, err := c.Execute(sql); err != nil {
			r.T.Fatalf("execute %q: %v", sql, err)
		}
	}
	if err := c.Close(); err != nil {
		r.T.Fatal(err)
	}
	if err := servers.AwaitLeft(r.Ctx, r.App, strconv.Itoa(int(c.GetConnectionID()))); err != nil {
		r.T.Fatal(err)
	}
}

// finishXA commits a prepared transaction, or rolls it back. It is its session's until that has ended.
func (r *sourceRig) finishXA(verb, name string) {
	r.T.Helper()
	for {
		_, err := r.App.Execute("XA " + verb + " '" + r.DB + name + "'")
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "XAER_NOTA") && !strings.Contains(err.Error(), "Unknown XID") {
			r.T.Fatalf("xa %s: %v", verb, err)
		}
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// What was prepared before the position that reading began at, and is committed behind it, no comparison finds where rows are
// kept: its rows are looked up in the log. Where that has been purged, the relay says so.
func TestXAPreparedBeforePosition(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		var log lockedBuffer
		r.Cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		// Rows that cannot be read any more are of no concern where nobody asks for them.
		old := func(id int) string {
			return "INSERT INTO outbox (id, was, payload) VALUES ('" + mysqltest.Number(id) + "', 'T', 'old')"
		}
		r.Exec("CREATE TABLE other (i INT PRIMARY KEY)", "ALTER TABLE outbox RENAME COLUMN type TO was", old(92))
		r.prepareXA("old", old(93))
		r.finishXA("COMMIT", "old")
		r.Exec("ALTER TABLE outbox RENAME COLUMN was TO type")
		r.prepareXA("a", mysqltest.Insert(10, 11))
		r.Exec("FLUSH BINARY LOGS")
		r.prepareXA("b", "INSERT INTO other VALUES (1)")
		r.prepareXA("c", mysqltest.Insert(20))
		r.prepareXA("d", mysqltest.Insert(30))
		r.prepareXA("e", mysqltest.Insert(40))
		r.Exec("FLUSH BINARY LOGS", mysqltest.Insert(91))
		from := r.Establish()
		r.Exec(mysqltest.Insert(1))
		r.finishXA("COMMIT", "b")
		r.finishXA("COMMIT", "c")
		r.Exec(mysqltest.Insert(2))
		r.finishXA("ROLLBACK", "d")
		if kind == server.KindMySQL { // MariaDB rolls back what changed nothing
			r.prepareXA("nothing", "SELECT * FROM other")
			r.finishXA("COMMIT", "nothing")
		}
		r.finishXA("COMMIT", "a")
		r.Exec(mysqltest.Insert(4))
		var runs [2]*mysqltest.Tail
		for i := range runs {
			x := r.Run(from)
			runs[i] = x
			for len(x.Messages) == 0 || x.Messages[len(x.Messages)-1].ID != mysqltest.Number(4) {
				x.Next("the last message")
			}
			x.Stop()
			if x.IDs() != "1 20 2 10 11 4" {
				t.Fatalf("messages %s", x.IDs())
			}
		}
		x, again := runs[0], runs[1]
		for i, m := range again.Messages {
			if was := x.Messages[i]; was.Position != m.Position {
				t.Errorf("message %s was at %s, and is at %s when it is read again", mysqltest.ShortID(m.ID), was.Position, m.Position)
			}
		}
		if strings.Contains(log.String(), "purged") {
			t.Errorf("it says that the log was purged: %s", log.String())
		}
		from = r.Establish()
		r.purge(resumed(t, x).place.FileName())
		r.finishXA("COMMIT", "e")
		r.Exec(mysqltest.Insert(3))
		x = r.Run(from)
		x.Until("3")
		x.Stop()
		if text := log.String(); !strings.Contains(text, "purged") || !strings.Contains(text, r.DB+".outbox") {
			t.Errorf("a transaction whose rows were purged: %s", text)
		}
	})
}

// A transaction that was prepared before a failover, and is committed at the promoted replica, has its rows in that one's log.
func TestXAOverFailover(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r, replica := newFollowedRig(t, kind)
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		from := r.Establish()
		r.Exec(mysqltest.Insert(1))
		r.prepareXA("a", mysqltest.Insert(10, 11))
		r.Exec(mysqltest.Insert(2))
		x := r.Run(from)
		x.Until("1 2")
		x.Stop()
		failOver(t, r, replica)
		r.Exec(mysqltest.Insert(3))
		r.finishXA("COMMIT", "a")
		r.Exec(mysqltest.Insert(4))
		y := r.Run(x.Resume)
		for len(y.Messages) == 0 || y.Messages[len(y.Messages)-1].ID != mysqltest.Number(4) {
			y.Next("the last message")
		}
		if y.IDs() != "3 10 11 4" {
			t.Errorf("messages after the failover: %s", y.IDs())
		}
	})
}

// A search for a transaction that the log does not hold any more passes others, which were prepared in one file and ended in the next:
// nothing of them is left that would keep the log from being read on elsewhere, or take the room of others.
func TestXASearchLeavesNothing(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		r.prepareXA("gone", mysqltest.Insert(10))
		r.Exec("FLUSH BINARY LOGS")
		r.purge(mustResume(t, r.Establish()).place.FileName())
		r.prepareXA("done", mysqltest.Insert(20))
		r.Exec("FLUSH BINARY LOGS")
		r.finishXA("COMMIT", "done")
		r.Exec("FLUSH BINARY LOGS")
		from := r.Establish()
		r.Exec(mysqltest.Insert(1))
		r.finishXA("COMMIT", "gone")
		r.Exec(mysqltest.Insert(2))
		x := r.Run(from)
		x.Until("1 2")
		x.Stop()
		if at := resumed(t, x); at.from.File != 0 {
			t.Errorf("reading goes on from %s, where an old transaction was prepared", at.from)
		}
	})
}

// Without names of columns, the log behind the files that are searched is looked at for statements that altered the table: once, and not
// for each of the files.
func TestXASearchWithoutNames(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		metadata, status := "MINIMAL", "performance_schema.global_status"
		if kind == server.KindMariaDB {
			metadata, status = "NO_LOG", "information_schema.global_status"
		}
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", metadata)))
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		sent := func() int {
			n, err := strconv.Atoi(r.One("SELECT variable_value FROM " + status + " WHERE variable_name = 'Bytes_sent'"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.Exec("CREATE TABLE other (i INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
		const files, size = 8, 1 << 20
		for i := range files {
			r.prepareXA(fmt.Sprint("x", i), mysqltest.Insert(10+i))
			r.Exec(fmt.Sprintf("INSERT INTO other (b) VALUES (REPEAT('x', %d))", size), "FLUSH BINARY LOGS")
		}
		from := r.Establish()
		r.Exec(mysqltest.Insert(1))
		r.finishXA("COMMIT", "x0")
		r.Exec(mysqltest.Insert(2))
		before := sent()
		x := r.Run(from)
		x.Until("1 10 2")
		x.Stop()
		if n := sent() - before; n > 3*files*size {
			t.Errorf("the server sent %d bytes for a search of %d files of %d", n, files, size)
		}
	})
}
