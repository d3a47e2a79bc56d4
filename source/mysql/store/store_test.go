package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A session that lives and has lost the lock, or whose lock another server of a cluster gave to somebody else, commits nothing.
func TestSessionWithoutItsLock(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*storeRig)
	}{
		{"released", func(r *storeRig) {
			b := r.store().Batch()
			b.Exec("SELECT RELEASE_ALL_LOCKS()")
			if err := r.store().Send(r.Ctx, b); err != nil {
				r.T.Fatal(err)
			}
		}},
		{"taken by another", func(r *storeRig) {
			b := r.store().Batch()
			b.Exec("SELECT RELEASE_ALL_LOCKS()")
			if err := r.store().Send(r.Ctx, b); err != nil {
				r.T.Fatal(err)
			}
			r.Exec("SELECT GET_LOCK(?, 0)", r.store().Lock)
		}},
		{"another epoch", func(r *storeRig) { r.Exec("UPDATE tailbox_checkpoint SET lease_epoch = lease_epoch + 1") }},
		{"row gone", func(r *storeRig) { r.Exec("DELETE FROM tailbox_checkpoint") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
				r.Row(1)
				r.Park(sourcetest.Head("kafka", r.Msg(2, "g"), 0))
				r.Exec("INSERT INTO tailbox_request (pipeline, verb, selection) VALUES ('p', 'drop', '{\"all\": true, \"states\": [\"retrying\"]}')")
				requests, err := r.St.Requests(r.Ctx)
				if err != nil || len(requests) != 1 {
					t.Fatal(requests, err)
				}
				c.lose(r)
				before := r.Text("SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ', resume, started, unclean_starts)), '') FROM tailbox_checkpoint")
				save := &checkpoint.Checkpoint{SourceID: "s", Resume: "late", Log: 1}
				for what, err := range map[string]error{
					"save":     r.St.Save(r.Ctx, save),
					"starting": r.St.Starting(r.Ctx, checkpoint.CrashCandidate{Position: outbox.Position{Log: 1}, Times: 1}),
					"settle": func() error {
						_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)},
							Changes: []checkpoint.Change{sourcetest.Delivered("kafka", r.Msg(2, "g"))}, Checkpoint: func([]int) *checkpoint.Checkpoint { return save }})
						return err
					}(),
					"apply": func() error {
						_, err := r.St.Apply(r.Ctx, &requests[0], []checkpoint.Lane{{Sink: "kafka", Group: "g"}})
						return err
					}(),
				} {
					if !errors.Is(err, session.ErrLost) || errors.Is(err, source.ErrStop) {
						t.Errorf("%s: %v, want errLost", what, err)
					}
				}
				if _, err := r.St.Ping(r.Ctx); !errors.Is(err, session.ErrLost) && !strings.Contains(c.name, "epoch") && !strings.Contains(c.name, "row") {
					t.Errorf("ping: %v, want errLost", err)
				}
				mysqltest.Equal(t, "rows", r.Rows(), "1")
				mysqltest.Equal(t, "parked", r.ParkedRows(), "kafka:2 retrying!@")
				mysqltest.Equal(t, "checkpoint", r.Text("SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ', resume, started, unclean_starts)), '') FROM tailbox_checkpoint"), before)
				mysqltest.Equal(t, "requests done", r.Text("SELECT COUNT(*) FROM tailbox_request WHERE done_at IS NOT NULL"), "0")
			})
		})
	}
}

// A client that hangs loses its session, in a transaction too, and with it the lock; what it had not committed is gone. There
// is no way back into the session.
func TestHangingClientLosesItsSession(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
		for name, want := range map[string]string{"wait_timeout": "10", "interactive_timeout": "10", "innodb_lock_wait_timeout": "1", "lock_wait_timeout": "1"} {
			if rows, err := r.store().Conn.Texts(r.Ctx, "SELECT @@session."+name); err != nil || rows[0][0] != want {
				t.Errorf("%s = %v, %v, want %s", name, rows, err, want)
			}
		}
		r.Row(1)
		b := r.store().Batch()
		b.Exec("SET wait_timeout = 1")
		r.store().Begin(b)
		b.Exec("DELETE FROM outbox")
		if err := r.store().Send(r.Ctx, b); err != nil {
			t.Fatal(err)
		}
		var next *Store
		r.Until("the lock is free", func() bool {
			var err error
			if next, err = openStore(r.Ctx, r.Cfg); err != nil && !errors.Is(err, checkpoint.ErrLocked) {
				t.Fatal(err)
			}
			return err == nil
		})
		defer func() { _ = next.Close(context.Background()) }()
		mysqltest.Equal(t, "rows", r.Rows(), "1")
		for range 2 {
			if err := r.St.Save(r.Ctx, &checkpoint.Checkpoint{Resume: "late"}); err == nil || errors.Is(err, source.ErrStop) {
				t.Errorf("save on a session that is gone: %v", err)
			}
		}
		if !r.store().Conn.Broken {
			t.Error("a session that is gone is not known to be")
		}
	})
}

// A table that is locked as a whole holds up nothing but its own rows.
func TestSettleLockedTable(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, func(c *server.Config) { c.Tables[1].Retention = time.Hour }, mysqltest.StoreShape("debezium", "outbox"), mysqltest.StoreShape("tailbox", "second"))
		r.Row(1)
		r.Row(4)
		r.Exec("INSERT INTO second (id, type, payload) VALUES (?, 'T', '')", sourcetest.EventID(2))
		large := sourcetest.Head("kafka", r.Msg(4, "h"), 0)
		large.InTable = true
		r.Park(large)
		other := r.Connect()
		mysqltest.Run(t, other, "LOCK TABLES outbox WRITE")
		second := r.Msg(2, "g")
		second.Table = r.DB + ".second"
		out := r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false), sourcetest.RowOf(second, false)},
			Park: []checkpoint.Parked{sourcetest.Head("kafka", r.Msg(3, "g"), 0)}})
		mysqltest.Equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{0}})
		mysqltest.Equal(t, "second", r.Text("SELECT status FROM second"), "delivered")
		r.Exec("INSERT INTO second (id, type, payload) VALUES (?, 'T', '')", sourcetest.EventID(3))
		pending, err := r.St.Pending(r.Ctx, "", 10)
		if err != nil || len(pending.Rows) != 1 || pending.Rows[0].ID != sourcetest.EventID(3) || pending.Cursor != "" {
			t.Errorf("pending beside a lock: %+v, %v", pending, err)
		}
		ms, _, err := r.St.Fetch(r.Ctx, []checkpoint.RowRef{{Table: r.DB + ".outbox", ID: sourcetest.EventID(1)}, {Table: r.DB + ".second", ID: sourcetest.EventID(3)}},
			outbox.Position{Log: 1, Commit: 5}, 1<<20)
		if err != nil || len(ms) != 1 || ms[0].ID != sourcetest.EventID(3) {
			t.Errorf("fetched beside a lock: %v, %v", ms, err)
		}
		// A delivery whose payload is in the table waits, and no other.
		ps, wait, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
		if err != nil || len(ps) != 1 || ps[0].Message.ID != sourcetest.EventID(3) || wait != store.LockedFor {
			t.Errorf("due beside a lock: %v, again in %v, %v", ps, wait, err)
		}
		page, more, err := r.St.Page(r.Ctx, checkpoint.Lane{Sink: "kafka", Group: "h"}, outbox.Position{}, 10, 1<<20)
		if err != nil || len(page) != 0 || !more {
			t.Errorf("a lane beside a lock: %v, more %v, %v", page, more, err)
		}
		mysqltest.Run(t, other, "UNLOCK TABLES")
		r.Until("the table's rows to be settled", func() bool {
			return len(r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)}}).Invisible) == 0
		})
		mysqltest.Equal(t, "rows", r.Rows(), "4")
		mysqltest.Equal(t, "passes over locked rows", r.store().SkipLocked, false)
		mysqltest.Run(t, other, "LOCK TABLES second WRITE")
		if n, _, err := r.store().Clean(r.Ctx, ""); n != 0 || err != nil {
			t.Errorf("clean-up beside a lock: %d rows removed, %v", n, err)
		}
	})
}

// Who waits to lock a table is told of where rows wait behind it: what has read the table, as a sweep has, may be what it waits for.
func TestSettleAwaitedTable(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
		r.Row(1)
		sweep, altering := r.Connect(), r.Connect()
		mysqltest.Run(t, sweep, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		mysqltest.Run(t, sweep, "SELECT COUNT(*) FROM outbox")
		altered := make(chan error, 1)
		go func() {
			_, err := altering.Execute("ALTER TABLE outbox ADD COLUMN more INT")
			altered <- err
		}()
		var out *checkpoint.Settled
		settle := func() *checkpoint.Settled {
			return r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)}})
		}
		r.Until("a settlement to find who waits", func() bool {
			var waits int
			res, err := r.Connect().Execute("SHOW PROCESSLIST")
			if err != nil {
				t.Fatal(err)
			}
			for i := range res.RowNumber() {
				if state, _ := res.GetString(i, 6); state == "Waiting for table metadata lock" {
					waits++
				}
			}
			if waits > 0 {
				out = settle()
			}
			return waits > 0
		})
		mysqltest.Equal(t, "settled", *out, checkpoint.Settled{Invisible: []int{0}, Awaited: true})
		mysqltest.Run(t, sweep, "COMMIT")
		if err := <-altered; err != nil {
			t.Error(err)
		}
		r.Until("the row to be settled", func() bool { return len(settle().Invisible) == 0 })
		mysqltest.Equal(t, "rows", r.Rows(), "")
	})
}

// A table that is away for a moment, being renamed and back, is waited for; one that stays away stops the relay.
func TestSettleTableAway(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
		r.Row(1)
		r.Exec("RENAME TABLE outbox TO gone")
		other := r.Connect()
		rollbacks := func() string {
			res, err := other.Execute("SHOW GLOBAL STATUS LIKE 'Com_rollback'")
			if err != nil {
				t.Fatal(err)
			}
			n, err := res.GetString(0, 1)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := rollbacks()
		settled := make(chan error, 1)
		settlement := &checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)}}
		go func() {
			_, err := r.St.Settle(r.Ctx, settlement)
			settled <- err
		}()
		r.Until("the settlement to meet that", func() bool {
			select {
			case err := <-settled:
				t.Fatalf("settle without the table: %v", err)
			default:
			}
			return rollbacks() != before
		})
		r.Exec("RENAME TABLE gone TO outbox")
		if err := <-settled; err != nil {
			t.Errorf("settle: %v", err)
		}
		mysqltest.Equal(t, "rows", r.Rows(), "")
		r.Exec("DROP TABLE outbox")
		if _, err := r.St.Settle(r.Ctx, settlement); !errors.Is(err, source.ErrStop) {
			t.Errorf("settle without the table: %v", err)
		}
	})
}

// What one packet does not take goes in several: settlements of thousands of rows, and messages of nearly a packet's size.
func TestSmallPackets(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const packet = 1 << 20
			my := servers.MySQL(t, kind, servers.WithSetting("max_allowed_packet", fmt.Sprint(packet)))
			r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
			var s checkpoint.Settlement
			var values []string
			for i := range 6000 {
				values = append(values, "('"+sourcetest.EventID(i)+"', 'a', 'b', 'T', '')")
				s.Rows = append(s.Rows, sourcetest.RowOf(r.Msg(i, ""), false))
				if i%2 == 0 {
					p := sourcetest.Head("kafka", r.Msg(i, "g"), 0)
					s.Park, s.Rows[i].Parked = append(s.Park, p), true
				}
			}
			r.Exec("INSERT INTO outbox VALUES " + strings.Join(values, ", "))
			mysqltest.Equal(t, "settled", *r.Settle(s), checkpoint.Settled{})
			mysqltest.Equal(t, "rows", r.Text("SELECT COUNT(*) FROM outbox"), "0")
			mysqltest.Equal(t, "parked", r.Text("SELECT COUNT(*) FROM tailbox_parked"), "3000")
			r.Exec("DELETE FROM tailbox_parked")

			quotes := strings.Repeat("'", packet*3/4)
			for i, payload := range []string{quotes, strings.Repeat("x", packet-100<<10), strings.Repeat("y", packet)} {
				m := r.Msg(i+1, "")
				m.Payload = []byte(payload)
				r.Park(sourcetest.Head("kafka", m, 0))
			}
			ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
			if err != nil || len(ps) != 3 {
				t.Fatal(len(ps), err)
			}
			if string(ps[0].Message.Payload) != quotes || len(ps[1].Message.Payload) != packet-100<<10 {
				t.Errorf("payloads of %d and %d bytes came back changed", len(ps[0].Message.Payload), len(ps[1].Message.Payload))
			}
			if f := ps[2].Message.Fault; f == nil || !strings.Contains(f.Reason, "gone from table") {
				t.Errorf("a payload that no packet holds: %+v, want a look at its row, which is not there", ps[2].Message)
			}
		})
	}
}

// What an operator has to mend stops the store with the fix.
func TestStoreStops(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table := mysqltest.StoreShape("debezium", "outbox")
		r := newBareRig(t, my, nil, table)
		open := func(what, fix string) {
			t.Helper()
			st, err := Open(r.Ctx, r.Cfg)
			if err == nil {
				_ = st.Close(r.Ctx)
			}
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
				t.Errorf("%s: %v, want an error with %q", what, err, fix)
			}
		}
		open("without tables", "tailbox init")
		for _, sql := range mysqltest.RelayTables() {
			r.Exec(sql)
		}
		open("without outbox table", "tailbox init")
		r.Exec("CREATE TABLE outbox (id CHAR(36), type TEXT, aggregatetype TEXT, aggregateid TEXT, payload TEXT)")
		open("without an index", "ADD UNIQUE")
		r.Exec("ALTER TABLE outbox ADD PRIMARY KEY (id)")
		r.Open()
		r.Row(1)
		r.Exec("CREATE TRIGGER no BEFORE DELETE ON outbox FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'never'")
		if _, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)}}); !errors.Is(err, source.ErrStop) ||
			!strings.Contains(err.Error(), "trigger") {
			t.Errorf("settle against a trigger: %v", err)
		}
		r.Exec("UPDATE tailbox_checkpoint SET schema_version = schema_version + 1")
		if err := r.St.Close(r.Ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := openStore(r.Ctx, r.Cfg); !errors.Is(err, source.ErrStop) || !errors.Is(err, checkpoint.ErrNewTables) || !strings.Contains(err.Error(), "newer tailbox") {
			t.Errorf("open a store on newer tables: %v", err)
		}
	})
}

// TestAfterAlterTable: what the store knows of a table is looked up anew when it no longer fits.
func TestAfterAlterTable(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("tailbox", "outbox"))
		for i := range 2 {
			r.Row(i + 1)
		}
		r.Exec("ALTER TABLE outbox MODIFY last_error VARCHAR(5), DROP COLUMN delivered_at, MODIFY attempts BIGINT NOT NULL DEFAULT 0")
		m := r.Msg(1, "g")
		r.ParkWhole(retriedFor("a long error", sourcetest.Head("kafka", m, time.Hour)))
		r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(2, "g"), false)}})
		mysqltest.Equal(t, "rows", r.Text("SELECT GROUP_CONCAT(CONCAT_WS(' ', status, attempts, last_error) ORDER BY id) FROM outbox"), "retrying 1 a lon,delivered 1")
	})
}

func retriedFor(why string, p checkpoint.Parked) checkpoint.Parked {
	p.LastError = why
	return p
}

// Rows that cannot be found by an id: empty ones, NULL, or ids from before the column had its type. Their messages are parked
// and settled all the same, and the comparison with the log leaves them out.
func TestRowsWithoutID(t *testing.T) {
	for typ, good := range map[string]string{"VARCHAR(2000)": "1", "BIGINT": "1", "BINARY(16)": "31313131-3131-3131-3131-313131313131", "VARBINARY(30)": "1"} {
		t.Run(typ, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				table := mysqltest.StoreShape("tailbox", "outbox")
				r := newBareRig(t, my, append(mysqltest.RelayTables(), "CREATE TABLE outbox (id "+typ+", type TEXT, payload TEXT, status VARCHAR(20) DEFAULT 'pending', KEY id (id"+
					map[bool]string{true: "(700)"}[typ == "VARCHAR(2000)"]+"))"), table)
				if typ == "VARCHAR(2000)" {
					r.Exec("ALTER TABLE outbox ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY, MODIFY id VARCHAR(2000) CHARACTER SET latin1, DROP KEY id, ADD KEY id (id)")
				}
				r.Open()
				r.Exec("INSERT INTO outbox (id, type) VALUES (NULL, 'T'), (" + map[bool]string{true: "REPEAT('1', 16)", false: "1"}[typ == "BINARY(16)"] + ", 'T')")
				if typ[0] == 'V' {
					r.Exec("INSERT INTO outbox (id, type) VALUES ('', 'T')")
				}
				rows, err := r.St.Pending(r.Ctx, "", 10)
				if err != nil {
					t.Fatal(err)
				}
				mysqltest.Equal(t, "pending", rows.Rows, []checkpoint.RowRef{{Table: r.DB + ".outbox", ID: good}})
				m := r.Msg(1, "g")
				m.ID, m.Fault = outbox.StandInID(m.Position.String()), &outbox.Fault{Class: outbox.FaultUndecodable, Reason: "no id"}
				old := r.Msg(2, "g")
				old.ID = "neither a number nor a UUID"
				mysqltest.Equal(t, "settled", r.ParkWhole(sourcetest.Dead("kafka", m, true), sourcetest.Dead("kafka", old, true)).Gone, map[bool]int{true: 1}[typ[0] == 'V'])
				mysqltest.Equal(t, "plain", len(r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(m, false), sourcetest.RowOf(old, false)}}).Invisible), 0)
				r.Ask(checkpoint.VerbReplay, checkpoint.Selection{All: true})
				ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
				if err != nil || len(ps) != 1 || ps[0].Message.Fault == nil || ps[0].InTable {
					t.Errorf("due: %+v, %v", ps, err)
				}
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m), sourcetest.Delivered("kafka", old)}})
				mysqltest.Equal(t, "parked", r.ParkedRows(), "")
				mysqltest.Equal(t, "pending rows", r.Text("SELECT COUNT(*) > 1 FROM outbox WHERE status = 'pending'"), "1")
			})
		})
	}
}

// What the relay deletes leaves only its keys in the binlog, where the account may ask for that; rows that it marks are others' to read.
func TestBinlogIsSpared(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for name, c := range map[string]struct {
			shape, want string
			advised     bool
		}{
			"delete":            {"debezium", "MINIMAL", true},
			"mark":              {"tailbox", "FULL", true},
			"feedback":          {"debezium", "FULL", true},
			"privilege missing": {"debezium", "FULL", false},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newBareRig(t, my, append(mysqltest.RelayTables(), mysqltest.ShapeDDL(&outbox.Table{Name: "outbox", Shape: c.shape})), mysqltest.StoreShape(c.shape, "outbox"))
				account := "spare_" + r.DB[max(0, len(r.DB)-20):]
				r.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'pass'", account))
				r.Exec(fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO '%s'@'%%'", r.DB, account))
				if c.advised {
					r.Exec(fmt.Sprintf("GRANT %s ON *.* TO '%s'@'%%'", map[string]string{"mysql": "SESSION_VARIABLES_ADMIN", "mariadb": "BINLOG ADMIN"}[my.Kind], account))
				}
				t.Cleanup(func() { r.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", account)) })
				u, err := url.Parse(r.Cfg.URL)
				if err != nil {
					t.Fatal(err)
				}
				u.User = url.UserPassword(account, "pass")
				r.Cfg.URL = u.String()
				if name == "feedback" {
					r.Cfg.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = 'dead' WHERE id = :id"}
				}
				r.Open()
				r.Row(1)
				r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(1, "g"), false)}})
				got, err := r.store().Conn.Texts(r.Ctx, "SELECT @@SESSION.binlog_row_image")
				if err != nil || got[0][0] != c.want {
					t.Errorf("rows are written to the binlog as %v, %v; want %s", got, err, c.want)
				}
			})
		}
	})
}
