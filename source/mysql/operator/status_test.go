package operator

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/setup"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// The oldest message that is not dead counts from its commit, or from the time it is scheduled for.
func TestStatusOldestUndelivered(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("debezium", "outbox"))
		for n := 1; n <= 4; n++ {
			r.Row(n)
		}
		r.Park(sourcetest.Dead("kafka", r.Msg(1, "g"), true))
		age := func(want time.Duration) {
			t.Helper()
			report, err := Status(r.Ctx, r.Cfg)
			if err != nil || len(report.Sinks) != 1 {
				t.Fatalf("status: %+v, %v", report, err)
			}
			if got := time.Duration(report.Sinks[0].UndeliveredSeconds * float64(time.Second)); got < want || got > want+want/2 {
				t.Errorf("age %v, want %v", got, want)
			}
		}
		at := func(n int, committed, available time.Time) *outbox.Message {
			m := r.Msg(n, "h")
			m.CommitTime, m.AvailableAt = committed, available
			return m
		}
		age(0)
		r.Park(sourcetest.Follower("kafka", at(2, time.Now().Add(-3*time.Hour), time.Now().Add(time.Hour))))
		age(0)
		r.Park(sourcetest.Follower("kafka", at(3, time.Now().Add(-3*time.Hour), time.Now().Add(-time.Hour))))
		age(time.Hour)
		r.Park(sourcetest.Follower("kafka", at(4, time.Now().Add(-2*time.Hour), time.Time{})))
		age(2 * time.Hour)
	})
}

// TestHolderBesideStatements: who holds the lock is found while another session is at a statement with characters that the server cannot list in a view.
func TestHolderBesideStatements(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("debezium", "outbox"))
		conn, err := r.Cfg.Connect(r.Ctx, r.Cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() {
			_, err := conn.Texts(r.Ctx, "SELECT SLEEP(60), '\U0010ffff\U0001f600'")
			over <- err
		}()
		defer func() { <-over }()
		looking, err := r.Cfg.Connect(r.Ctx, r.Cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = looking.Close(r.Ctx) }()
		id := strconv.FormatUint(uint64(conn.Client.GetConnectionID()), 10)
		defer func() {
			if _, err := looking.Exec(r.Ctx, "KILL QUERY "+id); err != nil {
				t.Error(err)
			}
		}()
		for sleeping := false; !sleeping; {
			rows, err := looking.Texts(r.Ctx, "SHOW PROCESSLIST")
			if err != nil {
				t.Fatal(err)
			}
			sleeping = slices.ContainsFunc(rows, func(row []string) bool { return row[0] == id && strings.Contains(row[7], "SLEEP") })
		}
		var locked *checkpoint.LockedError
		if _, err := mystore.Open(r.Ctx, r.Cfg); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "user root from ") {
			t.Errorf("beside a relay: %v", err)
		}
	})
}

// Anybody may take the lock of a pipeline: who it is, is told as far as the server shows it, and that it is no relay. And who may ask for verbs can say
// neither who asked, nor when, nor what came of it.
func TestStrangers(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("debezium", "outbox"))
		var locked *checkpoint.LockedError
		if _, err := mystore.Open(r.Ctx, r.Cfg); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "user root from ") {
			t.Errorf("beside a relay: %v", err)
		}
		if err := r.St.Close(r.Ctx); err != nil {
			t.Fatal(err)
		}
		account, cfg := mysqltest.NewAccount(r, "stranger", setup.ClientSQL(r.Cfg, "{account}", r.DB))
		conn, err := cfg.Connect(r.Ctx, cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(r.Ctx) }()
		if _, err := conn.Texts(r.Ctx, "SELECT GET_LOCK("+quote.Text(schema.LockName(strings.ToLower(r.DB), r.Cfg.Pipeline))+", 0)"); err != nil {
			t.Fatal(err)
		}
		name := strings.Split(account, "'")[1]
		if _, err := mystore.Open(r.Ctx, r.Cfg); !errors.As(err, &locked) || !locked.Foreign || !strings.Contains(err.Error(), "user "+name+" from ") || !strings.Contains(err.Error(), "KILL ") {
			t.Errorf("beside somebody else: %v", err)
		}
		if _, err := conn.Texts(r.Ctx, "INSERT INTO tailbox_request (pipeline, verb, selection, reason) VALUES ("+quote.Text(r.Cfg.Pipeline)+", 'pause', '{}', 'why')"); err != nil {
			t.Error(err)
		}
		asked, err := r.Cfg.Connect(r.Ctx, r.Cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = asked.Close(r.Ctx) }()
		rows, err := asked.Texts(r.Ctx, "SELECT `by` FROM tailbox_request")
		if err != nil || len(rows) != 1 || !strings.HasPrefix(rows[0][0], name+"@") {
			t.Errorf("who asked: %v, %v", rows, err)
		}
		for _, column := range []string{"by", "requested_at", "done_at", "result", "in_force"} {
			if _, err := conn.Texts(r.Ctx, "INSERT INTO tailbox_request (pipeline, verb, "+quote.Ident(column)+") VALUES ('a', 'pause', NULL)"); server.Code(err) != 1143 {
				t.Errorf("insert %s: %v", column, err)
			}
		}
	})
}

// TestGivenUpQuestion: the server ends a question that its asker has given up. By itself it would work on, for nobody.
func TestGivenUpQuestion(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("debezium", "outbox"))
		ctx, cancel := context.WithTimeout(r.Ctx, time.Second)
		defer cancel()
		s, err := openReader(ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Conn.Close(r.Ctx) }()
		if _, err := s.Conn.Texts(ctx, "SELECT BENCHMARK(1000000000000, 1 + SQRT(2))"); err == nil || ctx.Err() == nil {
			t.Fatalf("the question ended by itself: %v", err)
		}
		r.Until("the server to end the question", func() bool {
			return !r.Runs("SELECT BENCHMARK")
		})
	})
}
