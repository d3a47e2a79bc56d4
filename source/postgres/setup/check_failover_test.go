package setup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// source.failover says where it does nothing, and the command that it names works.
func TestFailoverThatDoesNothing(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"16", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, version), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
			from := r.Establish()
			r.Cfg.Failover = true
			r.Src = stream.New(r.Cfg)
			told := func() string {
				r.Mu.Lock()
				defer r.Mu.Unlock()
				return r.Log.String()
			}
			x := r.Run(source.Start{From: from})
			r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			x.Messages(1)
			if err := x.Stop(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(told(), "level=WARN msg=\"source.failover does nothing") {
				t.Errorf("run does not say that failover does nothing:\n%s", told())
			}
			if version == "16" {
				pgtest.Found(t, r.CheckAs(r.Cfg), check.Warning, "source.failover does nothing", "pg_failover_slots")
				return
			}
			command := `ALTER_REPLICATION_SLOT "` + r.Cfg.Slot + `" (FAILOVER true)`
			pgtest.Found(t, r.CheckAs(r.Cfg), check.Warning, "source.failover does nothing for slot "+r.Cfg.Slot, command)
			pgtest.Found(t, r.CheckAs(r.Cfg), check.Warning, "synchronized_standby_slots is empty", "ALTER SYSTEM SET synchronized_standby_slots = ")
			conn, err := r.Cfg.ConnectReplication(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.Until("the slot to be free", func() bool {
				return r.Text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot) == "false"
			})
			if err := errors.Join(session.Exec(t.Context(), conn, command), session.ClosePgConn(t.Context(), conn)); err != nil {
				t.Fatal(err)
			}
			if text := pgtest.Levels(r.CheckAs(r.Cfg), check.Warning); strings.Contains(text, "does nothing") {
				t.Errorf("after the command: %s", text)
			}
		})
	}
}

// Without commit times and without numbers nothing tells a sweep the order of commits.
func TestCheckCommitTimes(t *testing.T) {
	t.Parallel()
	const what = "track_commit_timestamp is off, and table public.outbox has no sequence"
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL+";;CREATE TABLE a (id text PRIMARY KEY, type text, payload text, seq bigserial)", pgtest.Shape("debezium", "outbox"), pgtest.Shape("tailbox", "a"))
	pgtest.Found(t, r.CheckAs(r.Cfg), check.Warning, what, "ALTER SYSTEM SET track_commit_timestamp = on")
	if text := pgtest.Levels(r.CheckAs(r.Cfg), check.Warning); strings.Contains(text, "public.a has no sequence") {
		t.Errorf("a table with a sequence: %s", text)
	}
	own := pgtest.NewRig(t, servers.Postgres(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	own.Exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', 't'), ('a', '1', 't')")
	own.Exec("ALTER SYSTEM SET track_commit_timestamp = on")
	own.WhileDown(own.PG.Stop, func() {})
	own.Exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', 't')")
	pgtest.Found(t, own.CheckAs(own.Cfg), check.Warning, "the server does not know the commit time of 2 pending rows of table public.outbox", "before pg_upgrade")
	own.Exec("DELETE FROM outbox")
	if text := pgtest.Levels(own.CheckAs(own.Cfg), check.Warning); strings.Contains(text, "commit time") {
		t.Errorf("with commit times: %s", text)
	}
}

// A standby is called one. Its slot is read by the worker that synchronises it, which nobody has to stop.
func TestStandbyIsCalledOne(t *testing.T) {
	t.Parallel()
	r, standby := pgtest.StandbyRig(t)
	r.Establish()
	at := &pgtest.Rig{T: t, PG: standby, DB: r.DB, Cfg: r.Cfg, Ignored: map[string]int{}}
	at.Cfg.URL = standby.SocketURL(r.DB)
	at.Conn = at.Connect()
	at.Until("the slot", func() bool {
		return at.Text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1", at.Cfg.Slot) == "1"
	})
	findings := at.CheckAs(at.Cfg)
	pgtest.Found(t, findings, check.Problem, "the server is a standby", "target_session_attrs=read-write")
	if text := pgtest.Levels(findings, check.Problem); strings.Contains(text, "is read by") {
		t.Errorf("check: %s", text)
	}
	if _, err := postgres.Config(at.Cfg).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "the server is a standby") || errors.Is(err, source.ErrStop) {
		t.Errorf("OpenStore at a standby returned %v", err)
	}
}
