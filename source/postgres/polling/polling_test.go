package polling_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// pollRig is a rig with one table of shape tailbox, whose settings a test may change before it reads.
func pollRig(t *testing.T, options ...servers.Option) *pgtest.Rig {
	t.Helper()
	versions := servers.Versions(t)
	pg := servers.Shared(t, versions[len(versions)-1])
	if len(options) > 0 {
		pg = servers.Postgres(t, versions[len(versions)-1], options...)
	}
	table := pgtest.Shape("tailbox", "outbox")
	sql, err := ddl.Outbox(&table)
	if err != nil {
		t.Fatal(err)
	}
	r := pgtest.NewRig(t, pg, sql+";;"+ddl.SeqIndex(&table)+";;"+migrate.TablesIn("").Script(), table)
	r.Cfg.Poll = true
	return r
}

func put(r *pgtest.Rig, conn *pgx.Conn, n int) {
	r.T.Helper()
	if _, err := conn.Exec(context.Background(), "INSERT INTO outbox (type, message_group, payload) VALUES ('t', 'g', $1)", fmt.Appendf(nil, "%d", n)); err != nil {
		r.T.Fatal(err)
	}
}

// startPolling starts a Run of a polling source at the beginning.
func startPolling(r *pgtest.Rig, from source.Resume) *pgtest.Running {
	src := polling.New(r.Cfg)
	return r.RunOf(src, source.Start{From: from, Log: 1})
}

func payloads(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, string(m.Payload))
	}
	return strings.Join(s, " ")
}

// waits waits until the source looks for those who hold numbers, so that it had every reason to go on.
func waits(r *pgtest.Rig) {
	r.T.Helper()
	before := r.Text("SELECT coalesce(max(query_start)::text, '') FROM pg_stat_activity WHERE application_name = $1", session.AppName(r.Cfg.Pipeline))
	for range 3 {
		r.Until("another look", func() bool {
			now := r.Text("SELECT coalesce(max(query_start)::text, '') FROM pg_stat_activity WHERE application_name = $1", session.AppName(r.Cfg.Pipeline))
			changed := now != before
			before = now
			return changed
		})
	}
}

// TestPollNumberBeforeTransactionID: a transaction that has drawn a number, and has no transaction id yet, is in no snapshot of
// running transactions; what comes after its number waits all the same. So does it for a prepared one.
func TestPollNumberBeforeTransactionID(t *testing.T) {
	t.Parallel()
	r := pollRig(t, servers.WithSetting("max_prepared_transactions", "5"))
	x := startPolling(r, "0")
	slow := r.Connect()
	exec := func(sql string) {
		t.Helper()
		if _, err := slow.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// Every 32nd number is logged, and takes an id: the second one here does not.
	r.Exec("SELECT nextval('outbox_seq_seq')")
	exec("BEGIN")
	exec("SELECT nextval('outbox_seq_seq')")
	if id := func() (id *string) {
		if err := slow.QueryRow(context.Background(), "SELECT pg_current_xact_id_if_assigned()::text").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}(); id != nil {
		t.Fatalf("the transaction has the id %s: this test proves nothing", *id)
	}
	put(r, r.Conn, 3)
	waits(r)
	exec("INSERT INTO outbox (type, message_group, payload, seq) VALUES ('t', 'g', '2', 2)")
	waits(r)
	exec("PREPARE TRANSACTION 'slow'")
	waits(r)
	put(r, r.Conn, 4)
	waits(r)
	exec("COMMIT PREPARED 'slow'")
	ms, resume := x.Messages(3)
	if got := payloads(ms); got != "2 3 4" || !strings.HasPrefix(string(resume), "4 ") {
		t.Errorf("got %s up to %s", got, resume)
	}
}

// TestPollUnrelatedTransaction: a long transaction that draws no number holds up nothing, whatever it writes.
func TestPollUnrelatedTransaction(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	long := r.Connect()
	if _, err := long.Exec(context.Background(), "BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE TABLE other (n int); SELECT count(*) FROM outbox; SELECT txid_current()"); err != nil {
		t.Fatal(err)
	}
	x := startPolling(r, "0")
	r.Exec("BEGIN")
	put(r, r.Conn, 1)
	r.Exec("ROLLBACK")
	put(r, r.Conn, 2)
	if ms, _ := x.Messages(1); payloads(ms) != "2" {
		t.Errorf("got %s", payloads(ms))
	}
}

// TestPollSequences: a sequence that says nothing about order is refused, with what fixes it, by the source and by Check.
func TestPollSequences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, what string }{
		"cache":       {"ALTER SEQUENCE outbox_seq_seq CACHE 20", "CACHE 20"},
		"cycle":       {"ALTER SEQUENCE outbox_seq_seq CYCLE", "does not only grow"},
		"backwards":   {"ALTER SEQUENCE outbox_seq_seq INCREMENT -1 MINVALUE -100 START -1 RESTART", "does not only grow"},
		"no sequence": {"ALTER TABLE outbox ALTER seq DROP DEFAULT", "is not filled by one sequence"},
		"no index":    {"DROP INDEX outbox_seq", "has no index"},
		"no number":   {"ALTER TABLE outbox DROP seq", "has no sequence column"},
		"text":        {"ALTER TABLE outbox ALTER seq DROP DEFAULT, ALTER seq TYPE text", "is no whole number"},
		"identity":    {"ALTER TABLE outbox ALTER seq DROP DEFAULT, ALTER seq ADD GENERATED ALWAYS AS IDENTITY", ""},
		"steps":       {"ALTER SEQUENCE outbox_seq_seq INCREMENT 10", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pollRig(t)
			r.Exec(c.sql)
			_, err := polling.New(r.Cfg).Examine(context.Background(), "", "")
			findings, cerr := setup.Check(context.Background(), r.Cfg)
			if cerr != nil {
				t.Fatal(cerr)
			}
			told := false
			for _, f := range findings {
				told = told || f.Level == check.Problem && c.what != "" && strings.Contains(f.What, c.what) && f.Fix != ""
				if f.Level == check.Problem && c.what == "" {
					t.Errorf("check: %s", f.What)
				}
			}
			if c.what == "" {
				if err != nil {
					t.Fatal(err)
				}
				put(r, r.Conn, 1)
				put(r, r.Conn, 2)
				if ms, _ := startPolling(r, "0").Messages(2); payloads(ms) != "1 2" {
					t.Errorf("got %s", payloads(ms))
				}
				return
			}
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.what) || !told {
				t.Errorf("Examine: %v; check has told %v: %+v", err, told, findings)
			}
		})
	}
}

// TestPollRights: a role that may do no more than RoleSQL grants can poll; without the right to read the sequence it is told
// which one it lacks.
func TestPollRights(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	role := "poller_" + r.DB
	role = role[:min(len(role), 60)]
	r.Exec("CREATE ROLE " + role + " LOGIN PASSWORD 'p'")
	t.Cleanup(func() { r.Exec("DROP OWNED BY " + role); r.Exec("DROP ROLE " + role) })
	r.Exec(setup.RoleSQL(r.Cfg, role))
	cfg := r.Cfg
	cfg.URL = strings.Replace(r.PG.SocketURL(r.DB), "postgres@", role+":p@", 1)
	findings, err := setup.Check(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Level == check.Problem {
			t.Errorf("%s: %s", f.What, f.Fix)
		}
	}
	if _, err := polling.New(cfg).Examine(context.Background(), "", ""); err != nil {
		t.Error(err)
	}
	r.Exec("REVOKE SELECT ON SEQUENCE outbox_seq_seq FROM " + sqltext.Ident(role))
	_, err = polling.New(cfg).Examine(context.Background(), "", "")
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), `GRANT SELECT ON SEQUENCE public.outbox_seq_seq TO `) {
		t.Errorf("Examine without the right: %v", err)
	}
}

// TestPollPlans: no look reads more than what it shows, even before the server has statistics.
func TestPollPlans(t *testing.T) {
	t.Parallel()
	for _, on := range []outbox.OnDelivered{outbox.Delete, outbox.Mark} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			r := pollRig(t)
			r.Cfg.Tables[0].OnDelivered = on
			r.Exec("INSERT INTO outbox (type, payload, status) SELECT 't', 'x', 'delivered' FROM generate_series(1, 20000)")
			r.Exec("INSERT INTO outbox (type, payload) SELECT 't', 'x' FROM generate_series(1, 100)")
			conn, table, err := polling.OpenTable(context.Background(), &r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close(context.Background(), conn) }()
			for _, analyzed := range []bool{false, true} {
				if analyzed {
					r.Exec("ANALYZE outbox")
				}
				numbers, rows := table.Statements()
				for sql, args := range map[string]string{numbers: "20000, 5000", rows: "20000, 20100, 1000"} {
					name := fmt.Sprintf("p%d", len(sql))
					if err := session.Exec(context.Background(), conn.PgConn(), "PREPARE "+name+" AS "+sql); err != nil {
						t.Fatal(err)
					}
					rows, err := session.Query(context.Background(), conn.PgConn(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE "+name+" ("+args+")")
					if err != nil {
						t.Fatal(err)
					}
					plan := fmt.Sprint(rows)
					if !strings.Contains(plan, "using outbox_seq on outbox t") || strings.Contains(plan, "Seq Scan on outbox t") || strings.Contains(plan, "Rows Removed") {
						t.Errorf("analyzed %v: %s", analyzed, strings.ReplaceAll(plan, "] [", "\n"))
					}
					if err := session.Exec(context.Background(), conn.PgConn(), "DEALLOCATE "+name); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestPollAfterLog: a pipeline that was read from the log, and is polled now, or the other way round, goes on with what is
// pending.
func TestPollAfterLog(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	ctx := context.Background()
	e, err := polling.New(r.Cfg).Examine(ctx, "", "0/1234")
	if err != nil || !strings.Contains(e.Lost, "source.read was log") {
		t.Errorf("examined a place in the log: %+v, %v", e, err)
	}
	log := r.Cfg
	log.Poll = false
	e, err = stream.New(log).Examine(ctx, "", "1234")
	if err != nil || !strings.Contains(e.Lost, "source.read was poll") {
		t.Errorf("examined a number: %+v, %v", e, err)
	}
}

// TestPollOvertaken: numbers that begin anew, and overtake the place up to which all was read before it is looked again, are a
// lost position, under a running source and for the checkpoint of one that was stopped. None of the new rows is emitted before.
func TestPollOvertaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		identity bool
		sql      string
		anew     bool
	}{
		"truncate":           {false, "TRUNCATE outbox RESTART IDENTITY", true},
		"truncate, identity": {true, "TRUNCATE outbox RESTART IDENTITY", true},
		"alter sequence":     {false, "DELETE FROM outbox; ALTER SEQUENCE outbox_seq_seq RESTART", true},
		"alter table":        {true, "DELETE FROM outbox; ALTER TABLE outbox ALTER seq RESTART WITH 1", true},
		"another sequence of the same name": {false, `DELETE FROM outbox; ALTER TABLE outbox ALTER seq DROP DEFAULT; DROP SEQUENCE outbox_seq_seq;
			CREATE SEQUENCE outbox_seq_seq; ALTER TABLE outbox ALTER seq SET DEFAULT nextval('outbox_seq_seq')`, true},
		"truncate only": {false, "TRUNCATE outbox", false},
		"jump ahead":    {false, "SELECT setval('outbox_seq_seq', 1000)", false},
		"owner":         {false, "ALTER SEQUENCE outbox_seq_seq OWNED BY NONE", false},
		"rewrite":       {false, "ALTER TABLE outbox ALTER topic TYPE varchar(100)", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pollRig(t)
			if c.identity {
				r.Exec("ALTER TABLE outbox ALTER seq DROP DEFAULT, ALTER seq ADD GENERATED ALWAYS AS IDENTITY")
			}
			for n := range 5 {
				put(r, r.Conn, n)
			}
			x := startPolling(r, "0")
			_, resume := x.Messages(5)
			if e, err := polling.New(r.Cfg).Examine(context.Background(), "", resume); err != nil || e.Lost != "" {
				t.Errorf("examined before: %+v, %v", e, err)
			}
			r.Exec("BEGIN; " + c.sql + "; INSERT INTO outbox (type, message_group, payload) SELECT 't', 'g', n::text::bytea FROM generate_series(1, 8) n; COMMIT")
			e, err := polling.New(r.Cfg).Examine(context.Background(), "", resume)
			if err != nil || (e.Lost != "") != c.anew {
				t.Errorf("examined afterwards: %+v, %v", e, err)
			}
			if !c.anew {
				if ms, _ := x.Messages(8); payloads(ms) != "1 2 3 4 5 6 7 8" {
					t.Errorf("got %s", payloads(ms))
				}
				return
			}
			for ended := false; !ended; {
				select {
				case b, ok := <-x.Batches:
					if ended = !ok; ok && len(b.Messages) > 0 {
						t.Fatalf("%s came before it was seen that the numbers began anew", payloads(b.Messages))
					}
				case <-time.After(pgtest.Patience):
					t.Fatal("waited for the end of Run")
				}
			}
			x.Fails(source.ErrGap, "began anew")
			startPolling(r, resume).Fails(source.ErrGap, "began anew")
		})
	}
}

// TestPollOvertakenBetween: numbers that begin anew between the look at them and the reading of their rows are noticed by the reading.
func TestPollOvertakenBetween(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	put(r, r.Conn, 1)
	ctx := context.Background()
	conn, table, err := polling.OpenTable(ctx, &r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close(ctx, conn) }()
	before, err := table.Numbers(ctx, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec("TRUNCATE outbox RESTART IDENTITY")
	put(r, r.Conn, 1)
	shown := 0
	if err := table.Rows(ctx, 0, 1, 10, func(row poll.Row) (bool, error) {
		shown++
		if row.Series == before.Series || row.Series == "" {
			t.Errorf("a row of series %q, after numbers of %q", row.Series, before.Series)
		}
		return true, nil
	}); err != nil || shown != 1 {
		t.Errorf("%d rows, %v", shown, err)
	}
}

// TestPollOldCheckpoint: a checkpoint that does not tell its series, as older versions made them, goes on.
func TestPollOldCheckpoint(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	put(r, r.Conn, 1)
	put(r, r.Conn, 2)
	if e, err := polling.New(r.Cfg).Examine(context.Background(), "", "1"); err != nil || e.Lost != "" {
		t.Errorf("examined %+v, %v", e, err)
	}
	if ms, _ := startPolling(r, "1").Messages(1); payloads(ms) != "2" {
		t.Errorf("got %s", payloads(ms))
	}
}

// TestPollTruncated: a sequence that is set back is a lost position, and a row beyond the sequence is not waited for.
func TestPollTruncated(t *testing.T) {
	t.Parallel()
	r := pollRig(t)
	for n := range 5 {
		put(r, r.Conn, n)
	}
	x := startPolling(r, "0")
	x.Messages(5)
	// Who truncates locks the table and then the sequence, and must not meet a look that has locked the sequence and waits for the table.
	truncating := r.Connect()
	pgtest.Exec(t, truncating, "BEGIN")
	pgtest.Exec(t, truncating, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
	r.Until("a look to wait for the table", func() bool {
		return r.Text("SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass") != "0"
	})
	pgtest.Exec(t, truncating, "TRUNCATE outbox RESTART IDENTITY")
	pgtest.Exec(t, truncating, "COMMIT")
	x.Fails(source.ErrGap, "set back")
	r.Exec("INSERT INTO outbox (type, payload, seq) VALUES ('t', 'stranger', 1000)")
	put(r, r.Conn, 6)
	if ms, resume := startPolling(r, "0").Messages(1); payloads(ms) != "6" || !strings.HasPrefix(string(resume), "1 ") {
		t.Errorf("got %s up to %s", payloads(ms), resume)
	}
}
