package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// found looks for a finding of a level.
func found(t *testing.T, findings []Finding, level Level, what, cure string) {
	t.Helper()
	for _, f := range findings {
		if f.Level == level && strings.Contains(f.What, what) && strings.Contains(f.Cure, cure) {
			return
		}
	}
	t.Errorf("check does not find %q with the fix %q:\n%s\n%s", what, cure, levels(findings, Problem), levels(findings, Warning))
}

func (r *rig) checkAs(cfg Config) []Finding {
	r.t.Helper()
	findings, err := cfg.Check(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return findings
}

// source.failover says where it does nothing, and the command that it names works.
func TestFailoverThatDoesNothing(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"16", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, version), smallDDL, shape("tailbox", "a"))
			from := r.establish()
			r.cfg.Failover = true
			r.src = New(r.cfg)
			told := func() string {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.log.String()
			}
			x := r.run(source.Start{From: from})
			r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			x.messages(1)
			if err := x.stop(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(told(), "level=WARN msg=\"source.failover does nothing") {
				t.Errorf("run does not say that failover does nothing:\n%s", told())
			}
			if version == "16" {
				found(t, r.checkAs(r.cfg), Warning, "source.failover does nothing", "pg_failover_slots")
				return
			}
			command := `ALTER_REPLICATION_SLOT "` + r.cfg.Slot + `" (FAILOVER true)`
			found(t, r.checkAs(r.cfg), Warning, "source.failover does nothing for slot "+r.cfg.Slot, command)
			found(t, r.checkAs(r.cfg), Warning, "synchronized_standby_slots is empty", "ALTER SYSTEM SET synchronized_standby_slots = ")
			conn, err := r.cfg.connectReplication(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.until("the slot to be free", func() bool {
				return r.text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot) == "false"
			})
			if err := errors.Join(execSimple(t.Context(), conn, command), closePgConn(t.Context(), conn)); err != nil {
				t.Fatal(err)
			}
			if text := levels(r.checkAs(r.cfg), Warning); strings.Contains(text, "does nothing") {
				t.Errorf("after the command: %s", text)
			}
		})
	}
}

// Without commit times and without numbers nothing tells a sweep the order of commits.
func TestCheckCommitTimes(t *testing.T) {
	t.Parallel()
	const what = "track_commit_timestamp is off, and table public.outbox has no sequence"
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL+";;CREATE TABLE a (id text PRIMARY KEY, type text, payload text, seq bigserial)", shape("debezium", "outbox"), shape("tailbox", "a"))
	found(t, r.checkAs(r.cfg), Warning, what, "ALTER SYSTEM SET track_commit_timestamp = on")
	if text := levels(r.checkAs(r.cfg), Warning); strings.Contains(text, "public.a has no sequence") {
		t.Errorf("a table with a sequence: %s", text)
	}
	own := newRig(t, servers.Postgres(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	own.exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', 't'), ('a', '1', 't')")
	own.exec("ALTER SYSTEM SET track_commit_timestamp = on")
	own.whileDown(own.pg.Stop, func() {})
	own.exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', 't')")
	found(t, own.checkAs(own.cfg), Warning, "of 2 pending rows of table public.outbox the server does not know the commit time", "before pg_upgrade")
	own.exec("DELETE FROM outbox")
	if text := levels(own.checkAs(own.cfg), Warning); strings.Contains(text, "commit time") {
		t.Errorf("with commit times: %s", text)
	}
}

// A standby is called one. Its slot is read by the worker that synchronises it, which nobody has to stop.
func TestStandbyIsCalledOne(t *testing.T) {
	t.Parallel()
	r, standby := standbyRig(t)
	r.establish()
	at := &rig{t: t, pg: standby, db: r.db, cfg: r.cfg, ignored: map[string]int{}}
	at.cfg.URL = standby.SocketURL(r.db)
	at.conn = at.connect()
	at.until("the slot", func() bool {
		return at.text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1", at.cfg.Slot) == "1"
	})
	findings := at.checkAs(at.cfg)
	found(t, findings, Problem, "the server is a standby", "target_session_attrs=read-write")
	if text := levels(findings, Problem); strings.Contains(text, "is read by") {
		t.Errorf("check: %s", text)
	}
	if _, err := at.cfg.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "the server is a standby") || errors.Is(err, source.ErrStop) {
		t.Errorf("OpenStore at a standby returned %v", err)
	}
}
