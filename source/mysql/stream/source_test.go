package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// Rows of an XA transaction come where it is committed, not where it is prepared; those that are rolled back never do. A Run
// that starts between the two knows them still.
func TestXA(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		from := r.Establish()
		r.Exec(mysqltest.Insert(1))
		r.prepareXA("a", mysqltest.Insert(10, 11))
		r.prepareXA("b", mysqltest.Insert(20))
		r.Exec(mysqltest.Insert(2))
		x := r.Run(from)
		x.Until("1 2")
		middle := x.Resume
		r.finishXA("COMMIT", "a")
		r.Exec(mysqltest.Insert(3))
		r.finishXA("ROLLBACK", "b")
		one := "'" + r.DB + "one'"
		r.Exec("XA START "+one, mysqltest.Insert(30, 31), "XA END "+one, "XA COMMIT "+one+" ONE PHASE", mysqltest.Insert(4))
		x.Until("1 2 10 11 3 30 31 4")
		x.Stop()
		again := r.Run(middle)
		again.Until("10 11 3 30 31 4")
		for i, m := range again.Messages {
			if was := x.Messages[i+2]; was.Position != m.Position {
				t.Errorf("message %s was at %s, and is at %s when it is read again", mysqltest.ShortID(m.ID), was.Position, m.Position)
			}
		}
		for i := 1; i < len(x.Messages); i++ {
			if x.Messages[i-1].Position.Compare(x.Messages[i].Position) >= 0 {
				t.Errorf("position %s comes after %s", x.Messages[i].Position, x.Messages[i-1].Position)
			}
		}
	})
}

// Compressed transactions (MySQL) and events (MariaDB) are read like others, with rows that are larger than any buffer too.
func TestCompression(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		setting := servers.WithSetting("binlog_transaction_compression", "ON")
		if kind == server.KindMariaDB {
			setting = servers.WithSetting("log_bin_compress", "ON")
		}
		r := newSourceRig(t, servers.MySQL(t, kind, setting))
		r.Cfg.MaxMessage = 1 << 20
		r.Renew()
		from := r.Establish()
		r.Exec(mysqltest.Insert(1, 2, 3), "BEGIN", mysqltest.Insert(4))
		r.Exec("INSERT INTO outbox (id, type, payload) VALUES ('"+mysqltest.Number(5)+"', 'T', REPEAT('x', 900000))",
			"INSERT INTO outbox (id, type, payload) VALUES ('"+mysqltest.Number(6)+"', 'T', REPEAT('y', 9000000)), ('"+mysqltest.Number(7)+"', 'T', 'small')", "COMMIT", mysqltest.Insert(8))
		x := r.Run(from)
		x.Until("1 2 3 4 5 6 7 8")
		if m := x.Messages[4]; len(m.Payload) != 900000 || m.Fault != nil || strings.Trim(string(m.Payload), "x") != "" {
			t.Errorf("large message: %d bytes, fault %+v", len(m.Payload), m.Fault)
		}
		if m := x.Messages[5]; m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge || m.Payload != nil {
			t.Errorf("message larger than max_message: %d bytes, fault %+v", len(m.Payload), m.Fault)
		}
		if m := x.Messages[6]; string(m.Payload) != "small" {
			t.Errorf("message after it: %q", m.Payload)
		}
	})
}

// A table that is altered, renamed, swapped and truncated while it is read goes on being read.
func TestTableChanges(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		var mu sync.Mutex
		ignored := map[string]int{}
		r.Cfg.Ignored = func(why string, n int) {
			mu.Lock()
			defer mu.Unlock()
			ignored[why] += n
		}
		r.Renew()
		from := r.Establish()
		changes := []string{mysqltest.Insert(1), "ALTER TABLE outbox ADD extra INT UNSIGNED DEFAULT 7 AFTER id", mysqltest.Insert(2), "TRUNCATE TABLE outbox", mysqltest.Insert(3),
			"ALTER TABLE outbox DROP extra, MODIFY type VARCHAR(300) NOT NULL", mysqltest.Insert(4), "CREATE TABLE ghost LIKE outbox", "ALTER TABLE ghost ADD more TEXT FIRST",
			"INSERT INTO ghost (id, type, payload) VALUES ('" + mysqltest.Number(99) + "', 'T', '')", "RENAME TABLE outbox TO old, ghost TO outbox", mysqltest.Insert(5),
			"DELETE FROM outbox", mysqltest.Insert(6)}
		x := r.Run(from) // live
		r.Exec(changes[:6]...)
		x.Until("1 2 3")
		r.Exec(changes[6:]...)
		x.Until("1 2 3 4 5 6")
		x.Stop()
		again := r.Run(from) // and all of it afterwards
		again.Until("1 2 3 4 5 6")
		again.Stop()
		mu.Lock()
		defer mu.Unlock()
		if ignored["truncate"] != 2 || ignored["delete"] == 0 {
			t.Errorf("ignored: %v", ignored)
		}
		y := r.Run(x.Resume)
		r.Exec(mysqltest.Insert(7))
		y.Until("7")
		r.Exec("RENAME TABLE outbox TO gone")
		if err := y.Fails(); !errors.Is(err, source.ErrNoTable) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("Run that loses its table: %v", err)
		}
		if err := r.Run(y.Resume).Fails(); !errors.Is(err, source.ErrNoTable) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("Run without its table: %v", err)
		}
		r.Exec("RENAME TABLE gone TO outbox", mysqltest.Insert(8), "DROP TABLE outbox", "CREATE TABLE outbox LIKE old", mysqltest.Insert(9))
		r.Run(y.Resume).Until("8 9")
	})
}

// A rollback that stands in the log, because a table without transactions was changed too, takes rows back.
func TestRollbackInTheLog(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		my := servers.SharedMySQL(t, kind)
		if kind == server.KindMySQL { // with GTIDs it refuses such transactions
			my = servers.MySQL(t, kind, servers.WithSetting("gtid-mode", "OFF"), servers.WithSetting("enforce-gtid-consistency", "OFF"))
		}
		r := newSourceRig(t, my)
		r.Exec("CREATE TABLE plain (i INT) ENGINE=MyISAM")
		from := r.Establish()
		r.Exec("BEGIN", mysqltest.Insert(1), "SAVEPOINT s", mysqltest.Insert(2), "INSERT INTO plain VALUES (1)", "ROLLBACK TO s", mysqltest.Insert(3), "COMMIT",
			"BEGIN", mysqltest.Insert(4), "INSERT INTO plain VALUES (2)", "ROLLBACK", mysqltest.Insert(5))
		// Names of savepoints are names: with spaces and quotes in them, and the latest of a name counts.
		r.Exec("BEGIN", mysqltest.Insert(10), "SAVEPOINT `a s`", mysqltest.Insert(11), "SAVEPOINT `B``s`", mysqltest.Insert(12), "SAVEPOINT `b s`", mysqltest.Insert(13), "INSERT INTO plain VALUES (3)",
			"ROLLBACK TO SAVEPOINT `a s`", mysqltest.Insert(14), "COMMIT")
		r.Exec("BEGIN", mysqltest.Insert(15), "SAVEPOINT `b``s`", mysqltest.Insert(16), "SAVEPOINT other", mysqltest.Insert(17), "INSERT INTO plain VALUES (3)", "ROLLBACK TO `B``S`", mysqltest.Insert(18), "COMMIT")
		// In XA transactions, too, whose rows are held until they are committed.
		xa := "'" + r.DB + "'"
		r.Exec("XA START "+xa, mysqltest.Insert(20), "SAVEPOINT s", mysqltest.Insert(21), "INSERT INTO plain VALUES (4)", "ROLLBACK TO s", mysqltest.Insert(22), "SAVEPOINT t", mysqltest.Insert(23),
			"ROLLBACK TO t", mysqltest.Insert(24), "XA END "+xa, "XA PREPARE "+xa, "XA COMMIT "+xa, mysqltest.Insert(25))
		r.Exec("XA START "+xa, mysqltest.Insert(30), "INSERT INTO plain VALUES (5)", "XA END "+xa, "XA ROLLBACK "+xa, mysqltest.Insert(31))
		r.Exec("XA START "+xa, mysqltest.Insert(40), "INSERT INTO plain VALUES (5)", "XA END "+xa, "XA PREPARE "+xa, "XA ROLLBACK "+xa, mysqltest.Insert(41))
		// The server takes names for one that its collation takes for one.
		const accented, plain = "SAVEPOINT `\u00e9`", "ROLLBACK TO `E`"
		r.Exec("SET NAMES utf8mb4", "BEGIN", mysqltest.Insert(50), accented, mysqltest.Insert(51), "INSERT INTO plain VALUES (6)", plain, mysqltest.Insert(52), "COMMIT")
		// It does not matter which one is meant if no message came between them.
		r.Exec("CREATE TABLE beside (n INT)")
		r.Exec("SET NAMES utf8mb4", "BEGIN", "INSERT INTO beside VALUES (1)", accented, "INSERT INTO beside VALUES (2)", "SAVEPOINT other", "INSERT INTO plain VALUES (6)", plain, mysqltest.Insert(53), "COMMIT")
		x := r.Run(from)
		x.Until("1 3 5 10 14 15 18 20 22 24 25 31 41 50 52 53")
		r.Exec("BEGIN", mysqltest.Insert(60), accented, mysqltest.Insert(61), "SAVEPOINT other", mysqltest.Insert(62), "INSERT INTO plain VALUES (6)", plain, "COMMIT")
		if kind == server.KindMySQL { // what was rolled back is not in its log
			x.Until("1 3 5 10 14 15 18 20 22 24 25 31 41 50 52 53 60")
			return
		}
		if err := x.Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "accept-gap --unreadable") {
			t.Errorf("Run over a savepoint that nobody knows: %v", err)
		}
	})
}

// Settings that keep rows or columns out of the log stop Run with the fix, and sessions that have them are noticed.
func TestSettingsThatHideRows(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		my := servers.MySQL(t, kind)
		r := newSourceRig(t, my)
		from := r.Establish()
		for setting, value := range map[string]string{"binlog_row_image": "MINIMAL", "binlog_format": "STATEMENT"} {
			was := r.One("SELECT @@global." + setting)
			r.Exec("SET GLOBAL " + setting + " = '" + value + "'")
			if err := r.Run(from).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "SET GLOBAL "+setting) {
				t.Errorf("Run with %s: %v", setting, err)
			}
			r.Exec("SET GLOBAL " + setting + " = '" + was + "'")
		}
		// One session leaves out what it did not name: that is NULL where it would be, and a fault where it would not.
		r.Exec("SET SESSION binlog_row_image = 'MINIMAL'", mysqltest.Insert(1), "ALTER TABLE outbox MODIFY type VARCHAR(20) NOT NULL DEFAULT 'D'",
			"INSERT INTO outbox (id, payload) VALUES ('"+mysqltest.Number(2)+"', 'p')", "SET SESSION binlog_row_image = 'FULL'", mysqltest.Insert(3))
		x := r.Run(from)
		x.Until("1 2 3")
		if m := x.Messages[0]; m.Fault != nil || m.Headers != nil || string(m.Payload) != "1" {
			t.Errorf("row without its defaults: %+v %+v", m, m.Fault)
		}
		if m := x.Messages[1]; m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "binlog_row_image") {
			t.Errorf("row without its type: %+v", m.Fault)
		}
		resume := x.Resume
		r.Exec("SET SESSION binlog_format = 'STATEMENT'", mysqltest.Insert(4), "SET SESSION binlog_format = 'ROW'", mysqltest.Insert(5))
		x.Until("1 2 3 5")
		x.Stop()
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		if err := r.Run(resume).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "accept-gap") {
			t.Errorf("Run over a statement, with keep: %v", err)
		}
	})
}

// Without names of columns in the log those of today are taken, and rows from before a change stop Run.
func TestMetadataMinimal(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		settings := []string{"MINIMAL"}
		if kind == server.KindMariaDB {
			settings = append(settings, "NO_LOG")
		}
		for _, setting := range settings {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				r := newSourceRig(t, servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", setting)))
				from := r.Establish()
				x := r.Run(from)
				r.Exec(mysqltest.Insert(1))
				x.Until("1")
				r.Exec("ALTER TABLE outbox ADD extra INT AFTER id", mysqltest.Insert(2))
				x.Until("1 2")
				x.Stop()
				if err := r.Run(from).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_row_metadata") {
					t.Errorf("Run over rows from before the table was altered: %v", err)
				}
				r.Run(x.Resume).Stop()
			})
		}
	})
}

// The log was reset, or its server exchanged for one with a log of the same names: a lost position, whatever the numbers say. A
// Run that reads the old log does not wait for more of it.
func TestResetIsAGap(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		my := servers.MySQL(t, kind)
		r := newSourceRig(t, my)
		r.Exec(mysqltest.Insert(1))
		x := r.Run(r.Establish())
		r.Exec(mysqltest.Insert(2))
		x.Until("2")
		reset := "RESET BINARY LOGS AND GTIDS"
		if kind == server.KindMariaDB {
			reset = "RESET MASTER"
		}
		// Files are told apart by the second in which they were begun.
		r.Exec("DO SLEEP(1.1)", reset, mysqltest.Insert(3))
		if err := x.Fails(); errors.Is(err, source.ErrStop) {
			t.Errorf("Run while the log was reset: %v", err)
		}
		lost := func() {
			t.Helper()
			e, err := r.Src.Examine(r.Ctx, resumed(t, x).server, x.Resume)
			if err != nil || e.Lost == "" {
				t.Errorf("examined a position in a log that was reset: %+v, %v", e, err)
			}
			if err := r.Run(x.Resume).Fails(); !errors.Is(err, source.ErrGap) {
				t.Errorf("Run after the log was reset: %v", err)
			}
		}
		lost()
		for i := range 200 { // the log is longer than it was, and has more GTIDs
			r.Exec(mysqltest.Insert(1000 + i))
		}
		lost()
	})
}

func resumed(t *testing.T, x *mysqltest.Tail) *resume {
	t.Helper()
	return mustResume(t, x.Resume)
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
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		from := r.Establish()
		r.Cfg.ServerID = 4_000_000_000
		r.Cfg.Pipeline = "first"
		r.Renew()
		x := r.Run(from)
		r.Exec(mysqltest.Insert(1))
		x.Until("1")
		r.Cfg.Pipeline = "second"
		r.Renew()
		if err := r.Run(from).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "4000000000") {
			t.Errorf("a second reader with the same server_id: %v", err)
		}
		r.Exec(mysqltest.Insert(2))
		x.Until("1 2")
	})
}

// What is written while a snapshot is opened is in it, or comes after its position: never both, never neither.
func TestEstablishUnderLoad(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		const writers, each = 4, 60
		var wg sync.WaitGroup
		for w := range writers {
			c := r.Connect()
			wg.Go(func() {
				for i := range each {
					if _, err := c.Execute(mysqltest.Insert(1000*(w+1) + i)); err != nil {
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
			snap, err := r.Src.Establish(r.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			s := seen{swept: map[string]bool{}, from: snap.Resume()}
			if _, err := snap.Judge(r.Ctx, source.Known{}); err != nil {
				t.Fatal(err)
			}
			s.swept = r.swept(snap)
			if err := snap.Close(r.Ctx); err != nil {
				t.Fatal(err)
			}
			rounds = append(rounds, s)
		}
		wg.Wait()
		r.Exec(mysqltest.Insert(9999))
		for i, s := range rounds {
			x := r.Run(s.from)
			for len(x.Messages) == 0 || x.Messages[len(x.Messages)-1].ID != mysqltest.Number(9999) {
				x.Next("the last message")
			}
			x.Stop()
			for _, m := range x.Messages {
				if s.swept[m.ID] {
					t.Errorf("round %d: message %s was swept, and comes after the position", i, mysqltest.ShortID(m.ID))
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
	r.T.Helper()
	ids := map[string]bool{}
	err := snap.Pending(r.Ctx, 1, func(_ context.Context, b *source.Batch) error {
		for _, m := range b.Messages {
			ids[m.ID] = true
		}
		return nil
	})
	if err != nil {
		r.T.Fatal(fmt.Errorf("sweep: %w", err))
	}
	return ids
}
