package mysql

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// prepareXA leaves transactions prepared, each on a connection of its own.
func (r *sourceRig) prepareXA(name string, statements ...string) {
	r.t.Helper()
	x := "'" + r.db + name + "'"
	c := r.connect()
	for _, sql := range append(append([]string{"XA START " + x}, statements...), "XA END "+x, "XA PREPARE "+x) {
		if _, err := c.Execute(sql); err != nil {
			r.t.Fatalf("execute %q: %v", sql, err)
		}
	}
	if err := c.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := servers.AwaitLeft(r.ctx, r.conn, strconv.Itoa(int(c.GetConnectionID()))); err != nil {
		r.t.Fatal(err)
	}
}

// finishXA commits a prepared transaction, or rolls it back. It is its session's until that has ended.
func (r *sourceRig) finishXA(verb, name string) {
	r.t.Helper()
	for {
		_, err := r.conn.Execute("XA " + verb + " '" + r.db + name + "'")
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "XAER_NOTA") && !strings.Contains(err.Error(), "Unknown XID") {
			r.t.Fatalf("xa %s: %v", verb, err)
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
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		var log lockedBuffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		// Rows that cannot be read any more are of no concern where nobody asks for them.
		old := func(id int) string {
			return "INSERT INTO outbox (id, was, payload) VALUES ('" + number(id) + "', 'T', 'old')"
		}
		r.exec("CREATE TABLE other (i INT PRIMARY KEY)", "ALTER TABLE outbox RENAME COLUMN type TO was", old(92))
		r.prepareXA("old", old(93))
		r.finishXA("COMMIT", "old")
		r.exec("ALTER TABLE outbox RENAME COLUMN was TO type")
		r.prepareXA("a", insert(10, 11))
		r.exec("FLUSH BINARY LOGS")
		r.prepareXA("b", "INSERT INTO other VALUES (1)")
		r.prepareXA("c", insert(20))
		r.prepareXA("d", insert(30))
		r.prepareXA("e", insert(40))
		r.exec("FLUSH BINARY LOGS", insert(91))
		from := r.establish()
		r.exec(insert(1))
		r.finishXA("COMMIT", "b")
		r.finishXA("COMMIT", "c")
		r.exec(insert(2))
		r.finishXA("ROLLBACK", "d")
		if kind == KindMySQL { // MariaDB rolls back what changed nothing
			r.prepareXA("nothing", "SELECT * FROM other")
			r.finishXA("COMMIT", "nothing")
		}
		r.finishXA("COMMIT", "a")
		r.exec(insert(4))
		var runs [2]*tail
		for i := range runs {
			x := r.run(from)
			runs[i] = x
			for len(x.messages) == 0 || x.messages[len(x.messages)-1].ID != number(4) {
				x.next("the last message")
			}
			x.stop()
			if x.ids() != "1 20 2 10 11 4" {
				t.Fatalf("messages %s", x.ids())
			}
		}
		x, again := runs[0], runs[1]
		for i, m := range again.messages {
			if was := x.messages[i]; was.Position != m.Position {
				t.Errorf("message %s was at %s, and is at %s when it is read again", shortID(m.ID), was.Position, m.Position)
			}
		}
		if strings.Contains(log.String(), "purged") {
			t.Errorf("it says that the log was purged: %s", log.String())
		}
		from = r.establish()
		r.purge(resumed(t, x).place.FileName())
		r.finishXA("COMMIT", "e")
		r.exec(insert(3))
		x = r.run(from)
		x.until("3")
		x.stop()
		if text := log.String(); !strings.Contains(text, "purged") || !strings.Contains(text, r.db+".outbox") {
			t.Errorf("a transaction whose rows were purged: %s", text)
		}
	})
}

// A transaction that was prepared before a failover, and is committed at the promoted replica, has its rows in that one's log.
func TestXAOverFailover(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r, replica := newFollowedRig(t, kind)
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		from := r.establish()
		r.exec(insert(1))
		r.prepareXA("a", insert(10, 11))
		r.exec(insert(2))
		x := r.run(from)
		x.until("1 2")
		x.stop()
		failOver(t, r, replica)
		r.exec(insert(3))
		r.finishXA("COMMIT", "a")
		r.exec(insert(4))
		y := r.run(x.resume)
		for len(y.messages) == 0 || y.messages[len(y.messages)-1].ID != number(4) {
			y.next("the last message")
		}
		if y.ids() != "3 10 11 4" {
			t.Errorf("messages after the failover: %s", y.ids())
		}
	})
}

// A search for a transaction that the log does not hold any more passes others, which were prepared in one file and ended in the next:
// nothing of them is left that would keep the log from being read on elsewhere, or take the room of others.
func TestXASearchLeavesNothing(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.MySQL(t, kind))
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		r.prepareXA("gone", insert(10))
		r.exec("FLUSH BINARY LOGS")
		r.purge(mustResume(t, r.establish()).place.FileName())
		r.prepareXA("done", insert(20))
		r.exec("FLUSH BINARY LOGS")
		r.finishXA("COMMIT", "done")
		r.exec("FLUSH BINARY LOGS")
		from := r.establish()
		r.exec(insert(1))
		r.finishXA("COMMIT", "gone")
		r.exec(insert(2))
		x := r.run(from)
		x.until("1 2")
		x.stop()
		if at := resumed(t, x); at.from.File != 0 {
			t.Errorf("reading goes on from %s, where an old transaction was prepared", at.from)
		}
	})
}

// Without names of columns, the log behind the files that are searched is looked at for statements that altered the table: once, and not
// for each of the files.
func TestXASearchWithoutNames(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		metadata, status := "MINIMAL", "performance_schema.global_status"
		if kind == KindMariaDB {
			metadata, status = "NO_LOG", "information_schema.global_status"
		}
		r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", metadata)))
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		sent := func() int {
			n, err := strconv.Atoi(r.one("SELECT variable_value FROM " + status + " WHERE variable_name = 'Bytes_sent'"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.exec("CREATE TABLE other (i INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
		const files, size = 8, 1 << 20
		for i := range files {
			r.prepareXA(fmt.Sprint("x", i), insert(10+i))
			r.exec(fmt.Sprintf("INSERT INTO other (b) VALUES (REPEAT('x', %d))", size), "FLUSH BINARY LOGS")
		}
		from := r.establish()
		r.exec(insert(1))
		r.finishXA("COMMIT", "x0")
		r.exec(insert(2))
		before := sent()
		x := r.run(from)
		x.until("1 10 2")
		x.stop()
		if n := sent() - before; n > 3*files*size {
			t.Errorf("the server sent %d bytes for a search of %d files of %d", n, files, size)
		}
	})
}
