package upstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

func examine(r *pgtest.Rig, sourceID string, from source.Resume) *source.Examined {
	r.T.Helper()
	e, err := r.Src.Examine(context.Background(), sourceID, from)
	if err != nil {
		r.T.Fatal(err)
	}
	return e
}

// lostAt checks that a position cannot be read, by Examine and by Run.
func lostAt(r *pgtest.Rig, from source.Resume, text string) {
	r.T.Helper()
	id := examine(r, "", "").SourceID
	if e := examine(r, id, from); !strings.Contains(e.Lost, text) || e.Moved || e.SourceID != id {
		r.T.Errorf("examined %+v, want lost because of %q", e, text)
	}
	r.Run(source.Start{From: from}).Fails(source.ErrGap, text)
}

// With other emitted messages than before, the same rows have other numbers: what was settled beyond the checkpoint is named by none of them.
func TestRowsCountedInAnotherWay(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	plain := examine(r, "", "").SourceID
	r.Cfg.Messages = "tailbox"
	r.Src = stream.New(r.Cfg)
	counted := examine(r, plain, from)
	if counted.Lost != "" || !counted.Moved || counted.Shared != 0 || counted.SourceID == plain {
		t.Errorf("with messages: %+v", counted)
	}
	if e := examine(r, counted.SourceID, from); e.Lost != "" || e.Moved || e.SourceID != counted.SourceID {
		t.Errorf("with messages once more: %+v", e)
	}
	r.Cfg.Messages = ""
	r.Src = stream.New(r.Cfg)
	if e := examine(r, counted.SourceID, from); e.Lost != "" || !e.Moved || e.Shared != 0 || e.SourceID != plain {
		t.Errorf("without them again: %+v", e)
	}
}

func TestLostPositions(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	lostAt(r, "0/1", "does not exist")
	from := r.Establish()
	id := examine(r, "", "").SourceID
	if system := r.Text("SELECT system_identifier::text FROM pg_control_system()"); !strings.HasPrefix(id, system+"/1@") {
		t.Errorf("source id %q, want that of system %s", id, system)
	}
	if e := examine(r, id, from); e.Lost != "" || e.Moved {
		t.Errorf("examined %+v", e)
	}
	if e := examine(r, "123/1", from); !strings.Contains(e.Lost, "belongs to server 123") {
		t.Errorf("examined %+v", e)
	}
	lostAt(r, "FFF/0", "beyond the server's log")
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.Exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", r.Cfg.Slot)
	lostAt(r, from, "has discarded log")
	r.Exec("SELECT pg_drop_replication_slot($1)", r.Cfg.Slot)
	for _, other := range []struct{ sql, text string }{
		{"SELECT pg_create_logical_replication_slot($1, 'test_decoding')", "test_decoding"},
		{"SELECT pg_create_physical_replication_slot($1)", "physical"},
	} {
		r.Exec(other.sql, r.Cfg.Slot)
		if _, err := r.Src.Examine(context.Background(), id, from); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), other.text) {
			t.Errorf("Examine returned %v", err)
		}
		if _, err := r.Src.Establish(context.Background()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), other.text) {
			t.Errorf("Establish returned %v", err)
		}
		r.Run(source.Start{From: from}).Fails(source.ErrStop, other.text)
		r.Exec("SELECT pg_drop_replication_slot($1)", r.Cfg.Slot)
	}
}

func TestSlotLostToItsLimit(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("max_slot_wal_keep_size", "1MB"), servers.WithSetting("min_wal_size", "32MB"),
		servers.WithSetting("max_wal_size", "32MB"))
	r := pgtest.NewRig(t, pg, pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	r.Until("slot lost", func() bool {
		r.Exec("SELECT pg_switch_wal()")
		r.Exec("CREATE TABLE IF NOT EXISTS filler AS SELECT 1")
		r.Exec("CHECKPOINT")
		return r.Text("SELECT wal_status FROM pg_replication_slots") == "lost"
	})
	lostAt(r, from, "invalidated (wal_removed)")
	// A new position heals it.
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if ms, _ := x.Messages(1); ms[0].ID != "2" {
		t.Errorf("got %s", ms[0].ID)
	}
}

func TestOldReaderIsEnded(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	old := r.Run(source.Start{From: from})
	old.Messages(1)
	successor := &pgtest.Rig{T: t, PG: r.PG, DB: r.DB, Conn: r.Conn, Cfg: r.Cfg, Src: stream.New(r.Cfg)}
	ms, _ := successor.Run(source.Start{From: from}).Messages(1)
	if ms[0].ID != "1" {
		t.Errorf("got %s", ms[0].ID)
	}
	if err := old.Wait(); err == nil || errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		t.Errorf("the old reader ended with %v", err)
	}
}

func TestForeignReaderIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	old := r.Run(source.Start{From: from})
	old.Messages(1)
	cfg := r.Cfg
	cfg.Pipeline += "x"
	other := &pgtest.Rig{T: t, PG: r.PG, DB: r.DB, Conn: r.Conn, Cfg: cfg, Src: stream.New(cfg)}
	pid := r.Text("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
	if err := other.Run(source.Start{From: from}).Wait(); err == nil || !strings.Contains(err.Error(), "active for PID "+pid) ||
		errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
		t.Errorf("Run returned %v", err)
	}
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	old.Messages(1)
}

func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t, "17")
	r := pgtest.NewRig(t, primary, pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	r.Cfg.Failover = true
	r.Src = stream.New(r.Cfg)
	from := r.Establish()
	id := examine(r, "", "").SourceID
	standby := primary.AddStandby(t)
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x := r.Run(source.Start{From: from})
	_, resume := x.Messages(1)
	r.Src.Confirm(resume)
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	at := r.Text("SELECT pg_current_wal_lsn()::text")
	promoted := &pgtest.Rig{T: t, PG: standby, DB: r.DB, Cfg: r.Cfg, Ignored: map[string]int{}}
	promoted.Conn = promoted.Connect()
	promoted.Cfg.URL = standby.SocketURL(r.DB)
	promoted.Src = stream.New(promoted.Cfg)
	promoted.Until("replay", func() bool {
		return promoted.Text("SELECT (pg_last_wal_replay_lsn() >= $1::pg_lsn)::text", at) == "true"
	})
	if _, err := promoted.Src.Examine(context.Background(), id, resume); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("Examine at a standby returned %v", err)
	}
	if err := standby.Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
	promoted.Conn = promoted.Connect()
	e := examine(promoted, id, resume)
	if e.SourceID == id || !strings.Contains(e.SourceID, "/2@") || !strings.Contains(e.Lost, "does not exist") {
		t.Errorf("examined %+v", e)
	}
	if e := examine(promoted, id, "FF/0"); !strings.Contains(e.Lost, "failover lost log") {
		t.Errorf("examined %+v", e)
	}
	if e := examine(promoted, strings.Replace(id, "/1@", "/3@", 1), resume); !strings.Contains(e.Lost, "older state") {
		t.Errorf("examined %+v", e)
	}
	promoted.Establish()
	promoted.T.Cleanup(promoted.DropSlot)
}

func TestSynchronisedSlotSurvivesPromotion(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t, "17")
	r := pgtest.NewRig(t, primary, pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	r.Cfg.Failover = true
	r.Src = stream.New(r.Cfg)
	from := r.Establish()
	id := examine(r, "", "").SourceID
	standby := primary.AddStandby(t, servers.WithSetting("sync_replication_slots", "on"))
	x := r.Run(source.Start{From: from})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.Messages(1)
	r.Src.Confirm(resume)
	promoted := &pgtest.Rig{T: t, PG: standby, DB: r.DB, Cfg: r.Cfg, Ignored: map[string]int{}}
	promoted.Conn = promoted.Connect()
	promoted.Until("slot synchronised", func() bool {
		r.Exec("SELECT pg_log_standby_snapshot()")
		for len(x.Batches) > 0 {
			<-x.Batches
		}
		return promoted.Text("SELECT count(*)::text FROM pg_replication_slots WHERE synced AND NOT temporary AND confirmed_flush_lsn >= $1", string(from)) == "1"
	})
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	at := r.Text("SELECT pg_current_wal_lsn()::text")
	promoted.Until("replay", func() bool {
		return promoted.Text("SELECT (pg_last_wal_replay_lsn() >= $1::pg_lsn)::text", at) == "true"
	})
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
	promoted.Cfg.URL = standby.SocketURL(r.DB)
	promoted.Src = stream.New(promoted.Cfg)
	promoted.Conn = promoted.Connect()
	promoted.Exec("INSERT INTO a VALUES ('3', 't', 'p', 'g')")
	if e := examine(promoted, id, resume); e.Lost != "" || !e.Moved || !strings.Contains(e.SourceID, "/2@") {
		t.Fatalf("examined %+v", e)
	}
	if ms, _ := promoted.Run(source.Start{From: resume, Log: 2}).Messages(2); pgtest.IDs(ms) != "2 3" {
		t.Errorf("got %s", pgtest.IDs(ms))
	}
}
