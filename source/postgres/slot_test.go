package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

func (r *rig) examine(sourceID string, from source.Resume) *source.Examined {
	r.t.Helper()
	e, err := r.src.Examine(context.Background(), sourceID, from)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// lost checks that a position cannot be read, by Examine and by Run.
func (r *rig) lost(from source.Resume, text string) {
	r.t.Helper()
	id := r.examine("", "").SourceID
	if e := r.examine(id, from); !strings.Contains(e.Lost, text) || e.Moved || e.SourceID != id {
		r.t.Errorf("examined %+v, want lost because of %q", e, text)
	}
	r.run(source.Start{From: from}).fails(source.ErrGap, text)
}

// With other emitted messages than before, the same rows have other numbers: what was settled beyond the checkpoint is named by none of them.
func TestRowsCountedInAnotherWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	plain := r.examine("", "").SourceID
	r.cfg.Messages = "tailbox"
	r.src = New(r.cfg)
	counted := r.examine(plain, from)
	if counted.Lost != "" || !counted.Moved || counted.Shared != 0 || counted.SourceID == plain {
		t.Errorf("with messages: %+v", counted)
	}
	if e := r.examine(counted.SourceID, from); e.Lost != "" || e.Moved || e.SourceID != counted.SourceID {
		t.Errorf("with messages once more: %+v", e)
	}
	r.cfg.Messages = ""
	r.src = New(r.cfg)
	if e := r.examine(counted.SourceID, from); e.Lost != "" || !e.Moved || e.Shared != 0 || e.SourceID != plain {
		t.Errorf("without them again: %+v", e)
	}
}

func TestLostPositions(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	r.lost("0/1", "does not exist")
	from := r.establish()
	id := r.examine("", "").SourceID
	if system := r.text("SELECT system_identifier::text FROM pg_control_system()"); !strings.HasPrefix(id, system+"/1@") {
		t.Errorf("source id %q, want that of system %s", id, system)
	}
	if e := r.examine(id, from); e.Lost != "" || e.Moved {
		t.Errorf("examined %+v", e)
	}
	if e := r.examine("123/1", from); !strings.Contains(e.Lost, "belongs to server 123") {
		t.Errorf("examined %+v", e)
	}
	r.lost("FFF/0", "beyond the server's log")
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", r.cfg.Slot)
	r.lost(from, "has discarded log")
	r.exec("SELECT pg_drop_replication_slot($1)", r.cfg.Slot)
	for _, other := range []struct{ sql, text string }{
		{"SELECT pg_create_logical_replication_slot($1, 'test_decoding')", "test_decoding"},
		{"SELECT pg_create_physical_replication_slot($1)", "physical"},
	} {
		r.exec(other.sql, r.cfg.Slot)
		if _, err := r.src.Examine(context.Background(), id, from); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), other.text) {
			t.Errorf("Examine returned %v", err)
		}
		if _, err := r.src.Establish(context.Background()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), other.text) {
			t.Errorf("Establish returned %v", err)
		}
		r.run(source.Start{From: from}).fails(source.ErrStop, other.text)
		r.exec("SELECT pg_drop_replication_slot($1)", r.cfg.Slot)
	}
}

func TestSlotLostToItsLimit(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("max_slot_wal_keep_size", "1MB"), servers.WithSetting("min_wal_size", "32MB"),
		servers.WithSetting("max_wal_size", "32MB"))
	r := newRig(t, pg, smallDDL, shape("tailbox", "a"))
	from := r.establish()
	r.until("slot lost", func() bool {
		r.exec("SELECT pg_switch_wal()")
		r.exec("CREATE TABLE IF NOT EXISTS filler AS SELECT 1")
		r.exec("CHECKPOINT")
		return r.text("SELECT wal_status FROM pg_replication_slots") == "lost"
	})
	r.lost(from, "invalidated (wal_removed)")
	// A new position heals it.
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if ms, _ := x.messages(1); ms[0].ID != "2" {
		t.Errorf("got %s", ms[0].ID)
	}
}

func TestOldReaderIsEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	old := r.run(source.Start{From: from})
	old.messages(1)
	successor := &rig{t: t, pg: r.pg, db: r.db, conn: r.conn, cfg: r.cfg, src: New(r.cfg)}
	ms, _ := successor.run(source.Start{From: from}).messages(1)
	if ms[0].ID != "1" {
		t.Errorf("got %s", ms[0].ID)
	}
	if err := old.wait(); err == nil || errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		t.Errorf("the old reader ended with %v", err)
	}
}

func TestForeignReaderIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	old := r.run(source.Start{From: from})
	old.messages(1)
	cfg := r.cfg
	cfg.Pipeline += "x"
	other := &rig{t: t, pg: r.pg, db: r.db, conn: r.conn, cfg: cfg, src: New(cfg)}
	pid := r.text("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
	if err := other.run(source.Start{From: from}).wait(); err == nil || !strings.Contains(err.Error(), "active for PID "+pid) ||
		errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		t.Errorf("Run returned %v", err)
	}
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	old.messages(1)
}

func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t, "17")
	r := newRig(t, primary, smallDDL, shape("tailbox", "a"))
	r.cfg.Failover = true
	r.src = New(r.cfg)
	from := r.establish()
	id := r.examine("", "").SourceID
	standby := primary.AddStandby(t)
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x := r.run(source.Start{From: from})
	_, resume := x.messages(1)
	r.src.Confirm(resume)
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	at := r.text("SELECT pg_current_wal_lsn()::text")
	promoted := &rig{t: t, pg: standby, db: r.db, cfg: r.cfg, ignored: map[string]int{}}
	promoted.conn = promoted.connect()
	promoted.cfg.URL = standby.SocketURL(r.db)
	promoted.src = New(promoted.cfg)
	promoted.until("replay", func() bool {
		return promoted.text("SELECT (pg_last_wal_replay_lsn() >= $1::pg_lsn)::text", at) == "true"
	})
	if _, err := promoted.src.Examine(context.Background(), id, resume); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("Examine at a standby returned %v", err)
	}
	if err := standby.Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
	promoted.conn = promoted.connect()
	e := promoted.examine(id, resume)
	if e.SourceID == id || !strings.Contains(e.SourceID, "/2@") || !strings.Contains(e.Lost, "does not exist") {
		t.Errorf("examined %+v", e)
	}
	if e := promoted.examine(id, "FF/0"); !strings.Contains(e.Lost, "failover lost log") {
		t.Errorf("examined %+v", e)
	}
	if e := promoted.examine(strings.Replace(id, "/1@", "/3@", 1), resume); !strings.Contains(e.Lost, "older state") {
		t.Errorf("examined %+v", e)
	}
	promoted.establish()
	promoted.t.Cleanup(promoted.dropSlot)
}

func TestSynchronisedSlotSurvivesPromotion(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t, "17")
	r := newRig(t, primary, smallDDL, shape("tailbox", "a"))
	r.cfg.Failover = true
	r.src = New(r.cfg)
	from := r.establish()
	id := r.examine("", "").SourceID
	standby := primary.AddStandby(t, servers.WithSetting("sync_replication_slots", "on"))
	x := r.run(source.Start{From: from})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.messages(1)
	r.src.Confirm(resume)
	promoted := &rig{t: t, pg: standby, db: r.db, cfg: r.cfg, ignored: map[string]int{}}
	promoted.conn = promoted.connect()
	promoted.until("slot synchronised", func() bool {
		r.exec("SELECT pg_log_standby_snapshot()")
		for len(x.batches) > 0 {
			<-x.batches
		}
		return promoted.text("SELECT count(*)::text FROM pg_replication_slots WHERE synced AND NOT temporary AND confirmed_flush_lsn >= $1", string(from)) == "1"
	})
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	at := r.text("SELECT pg_current_wal_lsn()::text")
	promoted.until("replay", func() bool {
		return promoted.text("SELECT (pg_last_wal_replay_lsn() >= $1::pg_lsn)::text", at) == "true"
	})
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
	promoted.cfg.URL = standby.SocketURL(r.db)
	promoted.src = New(promoted.cfg)
	promoted.conn = promoted.connect()
	promoted.exec("INSERT INTO a VALUES ('3', 't', 'p', 'g')")
	if e := promoted.examine(id, resume); e.Lost != "" || !e.Moved || !strings.Contains(e.SourceID, "/2@") {
		t.Fatalf("examined %+v", e)
	}
	if ms, _ := promoted.run(source.Start{From: resume, Log: 2}).messages(2); ids(ms) != "2 3" {
		t.Errorf("got %s", ids(ms))
	}
}
