package mysql

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// The oldest message that is not dead counts from its commit, or from the time it is scheduled for.
func TestStatusOldestUndelivered(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := loadedRig(t, my, Open, nil, storeShape("debezium", "outbox"))
		for n := 1; n <= 4; n++ {
			r.row(n)
		}
		r.park(dead("kafka", r.msg(1, "g"), true))
		age := func(want time.Duration) {
			t.Helper()
			report, err := Status(r.ctx, r.cfg)
			if err != nil || len(report.Sinks) != 1 {
				t.Fatalf("status: %+v, %v", report, err)
			}
			if got := time.Duration(report.Sinks[0].UndeliveredSeconds * float64(time.Second)); got < want || got > want+want/2 {
				t.Errorf("age %v, want %v", got, want)
			}
		}
		at := func(n int, committed, available time.Time) *outbox.Message {
			m := r.msg(n, "h")
			m.CommitTime, m.AvailableAt = committed, available
			return m
		}
		age(0)
		r.park(follower("kafka", at(2, time.Now().Add(-3*time.Hour), time.Now().Add(time.Hour))))
		age(0)
		r.park(follower("kafka", at(3, time.Now().Add(-3*time.Hour), time.Now().Add(-time.Hour))))
		age(time.Hour)
		r.park(follower("kafka", at(4, time.Now().Add(-2*time.Hour), time.Time{})))
		age(2 * time.Hour)
	})
}

// TestHolderBesideStatements: who holds the lock is found while another session is at a statement with characters that the server cannot list in a view.
func TestHolderBesideStatements(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := loadedRig(t, my, Open, nil, storeShape("debezium", "outbox"))
		conn, err := r.cfg.connect(r.ctx, r.cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() {
			_, err := conn.texts(r.ctx, "SELECT SLEEP(60), '\U0010ffff\U0001f600'")
			over <- err
		}()
		defer func() { <-over }()
		looking, err := r.cfg.connect(r.ctx, r.cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = looking.close(r.ctx) }()
		id := strconv.FormatUint(uint64(conn.conn.GetConnectionID()), 10)
		defer func() {
			if _, err := looking.exec(r.ctx, "KILL QUERY "+id); err != nil {
				t.Error(err)
			}
		}()
		for sleeping := false; !sleeping; {
			rows, err := looking.texts(r.ctx, "SHOW PROCESSLIST")
			if err != nil {
				t.Fatal(err)
			}
			sleeping = slices.ContainsFunc(rows, func(row []string) bool { return row[0] == id && strings.Contains(row[7], "SLEEP") })
		}
		var locked *checkpoint.LockedError
		if _, err := Open(r.ctx, r.cfg); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "user root from ") {
			t.Errorf("beside a relay: %v", err)
		}
	})
}

// Anybody may take the lock of a pipeline: who it is, is told as far as the server shows it, and that it is no relay. And who may ask for verbs can say
// neither who asked, nor when, nor what came of it.
func TestStrangers(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := loadedRig(t, my, Open, nil, storeShape("debezium", "outbox"))
		var locked *checkpoint.LockedError
		if _, err := Open(r.ctx, r.cfg); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "user root from ") {
			t.Errorf("beside a relay: %v", err)
		}
		if err := r.st.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		account, cfg := accountOn(r, "stranger", ClientSQL(r.cfg, "{account}", r.db))
		conn, err := cfg.connect(r.ctx, cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.close(r.ctx) }()
		if _, err := conn.texts(r.ctx, "SELECT GET_LOCK("+quoteLiteral(lockName(strings.ToLower(r.db), r.cfg.Pipeline))+", 0)"); err != nil {
			t.Fatal(err)
		}
		name := strings.Split(account, "'")[1]
		if _, err := Open(r.ctx, r.cfg); !errors.As(err, &locked) || !locked.Foreign || !strings.Contains(err.Error(), "user "+name+" from ") || !strings.Contains(err.Error(), "KILL ") {
			t.Errorf("beside somebody else: %v", err)
		}
		if _, err := conn.texts(r.ctx, "INSERT INTO tailbox_request (pipeline, verb, selection, reason) VALUES ("+quoteLiteral(r.cfg.Pipeline)+", 'pause', '{}', 'why')"); err != nil {
			t.Error(err)
		}
		asked, err := r.cfg.connect(r.ctx, r.cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = asked.close(r.ctx) }()
		rows, err := asked.texts(r.ctx, "SELECT `by` FROM tailbox_request")
		if err != nil || len(rows) != 1 || !strings.HasPrefix(rows[0][0], name+"@") {
			t.Errorf("who asked: %v, %v", rows, err)
		}
		for _, column := range []string{"by", "requested_at", "done_at", "result", "in_force"} {
			if _, err := conn.texts(r.ctx, "INSERT INTO tailbox_request (pipeline, verb, "+quoteIdent(column)+") VALUES ('a', 'pause', NULL)"); errorCode(err) != 1143 {
				t.Errorf("insert %s: %v", column, err)
			}
		}
	})
}

// accountOn makes an account with what a script grants to {account}, and returns it with a configuration that connects as it.
func accountOn(r *baseRig, name, script string) (account string, cfg config) {
	r.t.Helper()
	name += r.db[len(r.db)-8:]
	account = "'" + name + "'@'%'"
	r.exec("CREATE USER " + account + " IDENTIFIED BY 'pass'")
	r.t.Cleanup(func() { r.exec("DROP USER " + account) })
	for sql := range strings.SplitSeq(strings.ReplaceAll(script, "{account}", account), ";\n") {
		if strings.TrimSpace(sql) != "" {
			r.exec(sql)
		}
	}
	u, err := url.Parse(r.my.SocketURL(r.db))
	if err != nil {
		r.t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pass")
	cfg = r.cfg
	cfg.URL = u.String()
	return account, cfg
}
