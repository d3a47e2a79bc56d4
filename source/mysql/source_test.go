package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// Rows of an XA transaction come where it is committed, not where it is prepared; those that are rolled back never do. A Run
// that starts between the two knows them still.
func TestXA(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		from := r.establish()
		r.exec(insert(1))
		r.prepareXA("a", insert(10, 11))
		r.prepareXA("b", insert(20))
		r.exec(insert(2))
		x := r.run(from)
		x.until("1 2")
		middle := x.resume
		r.finishXA("COMMIT", "a")
		r.exec(insert(3))
		r.finishXA("ROLLBACK", "b")
		one := "'" + r.db + "one'"
		r.exec("XA START "+one, insert(30, 31), "XA END "+one, "XA COMMIT "+one+" ONE PHASE", insert(4))
		x.until("1 2 10 11 3 30 31 4")
		x.stop()
		again := r.run(middle)
		again.until("10 11 3 30 31 4")
		for i, m := range again.messages {
			if was := x.messages[i+2]; was.Position != m.Position {
				t.Errorf("message %s was at %s, and is at %s when it is read again", shortID(m.ID), was.Position, m.Position)
			}
		}
		for i := 1; i < len(x.messages); i++ {
			if x.messages[i-1].Position.Compare(x.messages[i].Position) >= 0 {
				t.Errorf("position %s comes after %s", x.messages[i].Position, x.messages[i-1].Position)
			}
		}
	})
}

// Compressed transactions (MySQL) and events (MariaDB) are read like others, with rows that are larger than any buffer too.
func TestCompression(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		setting := servers.WithSetting("binlog_transaction_compression", "ON")
		if kind == KindMariaDB {
			setting = servers.WithSetting("log_bin_compress", "ON")
		}
		r := newSourceRig(t, servers.MySQL(t, kind, setting))
		r.cfg.MaxMessage = 1 << 20
		r.renew()
		from := r.establish()
		r.exec(insert(1, 2, 3), "BEGIN", insert(4))
		r.exec("INSERT INTO outbox (id, type, payload) VALUES ('"+number(5)+"', 'T', REPEAT('x', 900000))",
			"INSERT INTO outbox (id, type, payload) VALUES ('"+number(6)+"', 'T', REPEAT('y', 9000000)), ('"+number(7)+"', 'T', 'small')", "COMMIT", insert(8))
		x := r.run(from)
		x.until("1 2 3 4 5 6 7 8")
		if m := x.messages[4]; len(m.Payload) != 900000 || m.Fault != nil || strings.Trim(string(m.Payload), "x") != "" {
			t.Errorf("large message: %d bytes, fault %+v", len(m.Payload), m.Fault)
		}
		if m := x.messages[5]; m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil {
			t.Errorf("message larger than max_message: %d bytes, fault %+v", len(m.Payload), m.Fault)
		}
		if m := x.messages[6]; string(m.Payload) != "small" {
			t.Errorf("message after it: %q", m.Payload)
		}
	})
}

// A table that is altered, renamed, swapped and truncated while it is read goes on being read.
func TestTableChanges(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		var mu sync.Mutex
		ignored := map[string]int{}
		r.cfg.Ignored = func(why string, n int) {
			mu.Lock()
			defer mu.Unlock()
			ignored[why] += n
		}
		r.renew()
		from := r.establish()
		changes := []string{insert(1), "ALTER TABLE outbox ADD extra INT UNSIGNED DEFAULT 7 AFTER id", insert(2), "TRUNCATE TABLE outbox", insert(3),
			"ALTER TABLE outbox DROP extra, MODIFY type VARCHAR(300) NOT NULL", insert(4), "CREATE TABLE ghost LIKE outbox", "ALTER TABLE ghost ADD more TEXT FIRST",
			"INSERT INTO ghost (id, type, payload) VALUES ('" + number(99) + "', 'T', '')", "RENAME TABLE outbox TO old, ghost TO outbox", insert(5),
			"DELETE FROM outbox", insert(6)}
		x := r.run(from) // live
		r.exec(changes[:6]...)
		x.until("1 2 3")
		r.exec(changes[6:]...)
		x.until("1 2 3 4 5 6")
		x.stop()
		again := r.run(from) // and all of it afterwards
		again.until("1 2 3 4 5 6")
		again.stop()
		mu.Lock()
		defer mu.Unlock()
		if ignored["truncate"] != 2 || ignored["delete"] == 0 {
			t.Errorf("ignored: %v", ignored)
		}
		y := r.run(x.resume)
		r.exec(insert(7))
		y.until("7")
		r.exec("RENAME TABLE outbox TO gone")
		if err := y.fails(); !errors.Is(err, source.ErrNoTable) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("Run that loses its table: %v", err)
		}
		if err := r.run(y.resume).fails(); !errors.Is(err, source.ErrNoTable) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("Run without its table: %v", err)
		}
		r.exec("RENAME TABLE gone TO outbox", insert(8), "DROP TABLE outbox", "CREATE TABLE outbox LIKE old", insert(9))
		r.run(y.resume).until("8 9")
	})
}

// A rollback that stands in the log, because a table without transactions was changed too, takes rows back.
func TestRollbackInTheLog(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		my := servers.SharedMySQL(t, kind)
		if kind == KindMySQL { // with GTIDs it refuses such transactions
			my = servers.MySQL(t, kind, servers.WithSetting("gtid-mode", "OFF"), servers.WithSetting("enforce-gtid-consistency", "OFF"))
		}
		r := newSourceRig(t, my)
		r.exec("CREATE TABLE plain (i INT) ENGINE=MyISAM")
		from := r.establish()
		r.exec("BEGIN", insert(1), "SAVEPOINT s", insert(2), "INSERT INTO plain VALUES (1)", "ROLLBACK TO s", insert(3), "COMMIT",
			"BEGIN", insert(4), "INSERT INTO plain VALUES (2)", "ROLLBACK", insert(5))
		// Names of savepoints are names: with spaces and quotes in them, and the latest of a name counts.
		r.exec("BEGIN", insert(10), "SAVEPOINT `a s`", insert(11), "SAVEPOINT `B``s`", insert(12), "SAVEPOINT `b s`", insert(13), "INSERT INTO plain VALUES (3)",
			"ROLLBACK TO SAVEPOINT `a s`", insert(14), "COMMIT")
		r.exec("BEGIN", insert(15), "SAVEPOINT `b``s`", insert(16), "SAVEPOINT other", insert(17), "INSERT INTO plain VALUES (3)", "ROLLBACK TO `B``S`", insert(18), "COMMIT")
		// In XA transactions, too, whose rows are held until they are committed.
		xa := "'" + r.db + "'"
		r.exec("XA START "+xa, insert(20), "SAVEPOINT s", insert(21), "INSERT INTO plain VALUES (4)", "ROLLBACK TO s", insert(22), "SAVEPOINT t", insert(23),
			"ROLLBACK TO t", insert(24), "XA END "+xa, "XA PREPARE "+xa, "XA COMMIT "+xa, insert(25))
		r.exec("XA START "+xa, insert(30), "INSERT INTO plain VALUES (5)", "XA END "+xa, "XA ROLLBACK "+xa, insert(31))
		r.exec("XA START "+xa, insert(40), "INSERT INTO plain VALUES (5)", "XA END "+xa, "XA PREPARE "+xa, "XA ROLLBACK "+xa, insert(41))
		// The server takes names for one that its collation takes for one.
		const accented, plain = "SAVEPOINT `\u00e9`", "ROLLBACK TO `E`"
		r.exec("SET NAMES utf8mb4", "BEGIN", insert(50), accented, insert(51), "INSERT INTO plain VALUES (6)", plain, insert(52), "COMMIT")
		x := r.run(from)
		x.until("1 3 5 10 14 15 18 20 22 24 25 31 41 50 52")
		r.exec("BEGIN", insert(60), accented, insert(61), "SAVEPOINT other", insert(62), "INSERT INTO plain VALUES (6)", plain, "COMMIT")
		if kind == KindMySQL { // what was rolled back is not in its log
			x.until("1 3 5 10 14 15 18 20 22 24 25 31 41 50 52 60")
			return
		}
		if err := x.fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "accept-gap --unreadable") {
			t.Errorf("Run over a savepoint that nobody knows: %v", err)
		}
	})
}

// Settings that keep rows or columns out of the log stop Run with the cure, and sessions that have them are noticed.
func TestSettingsThatHideRows(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		my := servers.MySQL(t, kind)
		r := newSourceRig(t, my)
		from := r.establish()
		for setting, value := range map[string]string{"binlog_row_image": "MINIMAL", "binlog_format": "STATEMENT"} {
			was := r.one("SELECT @@global." + setting)
			r.exec("SET GLOBAL " + setting + " = '" + value + "'")
			if err := r.run(from).fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "SET GLOBAL "+setting) {
				t.Errorf("Run with %s: %v", setting, err)
			}
			r.exec("SET GLOBAL " + setting + " = '" + was + "'")
		}
		// One session leaves out what it did not name: that is NULL where it would be, and a fault where it would not.
		r.exec("SET SESSION binlog_row_image = 'MINIMAL'", insert(1), "ALTER TABLE outbox MODIFY type VARCHAR(20) NOT NULL DEFAULT 'D'",
			"INSERT INTO outbox (id, payload) VALUES ('"+number(2)+"', 'p')", "SET SESSION binlog_row_image = 'FULL'", insert(3))
		x := r.run(from)
		x.until("1 2 3")
		if m := x.messages[0]; m.Fault != nil || m.Headers != nil || string(m.Payload) != "1" {
			t.Errorf("row without its defaults: %+v %+v", m, m.Fault)
		}
		if m := x.messages[1]; m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "binlog_row_image") {
			t.Errorf("row without its type: %+v", m.Fault)
		}
		resume := x.resume
		r.exec("SET SESSION binlog_format = 'STATEMENT'", insert(4), "SET SESSION binlog_format = 'ROW'", insert(5))
		x.until("1 2 3 5")
		x.stop()
		r.cfg.Tables[0].OnDelivered = outbox.Keep
		r.renew()
		if err := r.run(resume).fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "accept-gap") {
			t.Errorf("Run over a statement, with keep: %v", err)
		}
	})
}

// Without names of columns in the log those of today are taken, and rows from before a change stop Run.
func TestMetadataMinimal(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		settings := []string{"MINIMAL"}
		if kind == KindMariaDB {
			settings = append(settings, "NO_LOG")
		}
		for _, setting := range settings {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", setting)))
				from := r.establish()
				x := r.run(from)
				r.exec(insert(1))
				x.until("1")
				r.exec("ALTER TABLE outbox ADD extra INT AFTER id", insert(2))
				x.until("1 2")
				x.stop()
				if err := r.run(from).fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
					t.Errorf("Run over rows from before the table was altered: %v", err)
				}
				r.run(x.resume).stop()
			})
		}
	})
}

// The log was reset, or its server exchanged for one with a log of the same names: a lost position, whatever the numbers say. A
// Run that reads the old log does not wait for more of it.
func TestResetIsAGap(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		my := servers.MySQL(t, kind)
		r := newSourceRig(t, my)
		r.exec(insert(1))
		x := r.run(r.establish())
		r.exec(insert(2))
		x.until("2")
		reset := "RESET BINARY LOGS AND GTIDS"
		if kind == KindMariaDB {
			reset = "RESET MASTER"
		}
		// Files are told apart by the second in which they were begun.
		r.exec("DO SLEEP(1.1)", reset, insert(3))
		if err := x.fails(); errors.Is(err, source.ErrStop) {
			t.Errorf("Run while the log was reset: %v", err)
		}
		lost := func() {
			t.Helper()
			e, err := r.src.Examine(r.ctx, resumed(t, x).server, x.resume)
			if err != nil || e.Lost == "" {
				t.Errorf("examined a position in a log that was reset: %+v, %v", e, err)
			}
			if err := r.run(x.resume).fails(); !errors.Is(err, source.ErrGap) {
				t.Errorf("Run after the log was reset: %v", err)
			}
		}
		lost()
		for i := range 200 { // the log is longer than it was, and has more GTIDs
			r.exec(insert(1000 + i))
		}
		lost()
	})
}

func resumed(t *testing.T, x *tail) *resume {
	t.Helper()
	return mustResume(t, x.resume)
}

func mustResume(t *testing.T, text source.Resume) *resume {
	t.Helper()
	r, err := parseResume(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two readers with one server_id: a number that was configured is refused while a replica has it.
func TestServerID(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		from := r.establish()
		r.cfg.ServerID = 4_000_000_000
		r.cfg.Pipeline = "first"
		r.renew()
		x := r.run(from)
		r.exec(insert(1))
		x.until("1")
		r.cfg.Pipeline = "second"
		r.renew()
		if err := r.run(from).fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "4000000000") {
			t.Errorf("a second reader with the same server_id: %v", err)
		}
		r.exec(insert(2))
		x.until("1 2")
	})
}

// What is written while a snapshot is opened is in it, or comes after its position: never both, never neither.
func TestEstablishUnderLoad(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		const writers, each = 4, 60
		var wg sync.WaitGroup
		for w := range writers {
			c := r.connect()
			wg.Go(func() {
				for i := range each {
					if _, err := c.Execute(insert(1000*(w+1) + i)); err != nil {
						t.Errorf("insert: %v", err)
						return
					}
				}
			})
		}
		type seen struct {
			swept map[string]bool
			from  source.Resume
		}
		var rounds []seen
		for range 8 {
			snap, err := r.src.Establish(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			s := seen{swept: map[string]bool{}, from: snap.Resume()}
			if _, err := snap.Judge(r.ctx, source.Known{}); err != nil {
				t.Fatal(err)
			}
			s.swept = r.swept(snap)
			if err := snap.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			rounds = append(rounds, s)
		}
		wg.Wait()
		r.exec(insert(9999))
		for i, s := range rounds {
			x := r.run(s.from)
			for len(x.messages) == 0 || x.messages[len(x.messages)-1].ID != number(9999) {
				x.next("the last message")
			}
			x.stop()
			for _, m := range x.messages {
				if s.swept[m.ID] {
					t.Errorf("round %d: message %s was swept, and comes after the position", i, shortID(m.ID))
				}
				s.swept[m.ID] = true
			}
			if len(s.swept) != writers*each+1 {
				t.Errorf("round %d: %d of %d messages", i, len(s.swept), writers*each+1)
			}
		}
	})
}

func (r *sourceRig) swept(snap source.Snapshot) map[string]bool {
	r.t.Helper()
	ids := map[string]bool{}
	err := snap.Pending(r.ctx, 1, func(_ context.Context, b *source.Batch) error {
		for _, m := range b.Messages {
			ids[m.ID] = true
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(fmt.Errorf("sweep: %w", err))
	}
	return ids
}
