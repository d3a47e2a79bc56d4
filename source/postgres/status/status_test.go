package status_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/status"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/report"
	"github.com/tailbox/tailbox/test/servers"
)

// TestSlotOfLimitedLog: a slot's limit is known before the server drops log, and afterwards that the slot is lost.
func TestSlotOfLimitedLog(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("max_slot_wal_keep_size", "64MB"), servers.WithSetting("min_wal_size", "32MB"),
		servers.WithSetting("max_wal_size", "32MB"))
	r := pgtest.NewStoreRig(t, pg, nil, pgtest.Shape("debezium", "outbox"))
	if _, err := stream.New(r.Cfg).Establish(r.Ctx); err != nil {
		t.Fatal(err)
	}
	read := func() *status.Slot {
		t.Helper()
		got, err := status.Read(r.Ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		return got.Slot
	}
	if s := read(); s.Limit() < 64<<20 || s.Limit() > 128<<20 || s.Lost() != "" {
		t.Errorf("limit %d, lost %q, want 64 MiB, or a little more, and not lost", s.Limit(), s.Lost())
	}
	r.Exec("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	r.Exec("SELECT pg_reload_conf()")
	r.Until("the slot is lost", func() bool {
		r.Exec("SELECT pg_switch_wal()")
		r.Exec("CREATE TABLE IF NOT EXISTS filler AS SELECT 1")
		r.Exec("CHECKPOINT")
		return read().Lost() != ""
	})
	if s := read(); s.Limit() != 0 || s.Lost() != "replication slot "+r.Cfg.Slot+" is invalidated (wal_removed)" {
		t.Errorf("limit %d, lost %q", s.Limit(), s.Lost())
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, version), nil, pgtest.Shape("debezium", "outbox"))
			s, err := stream.New(r.Cfg).Establish(r.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(r.Ctx) }()
			if err := r.St.Save(r.Ctx, &checkpoint.Checkpoint{SourceID: "1/1", Resume: s.Resume(), Log: 1}); err != nil {
				t.Fatal(err)
			}
			r.Park(sourcetest.Head("kafka", pgtest.Msg(1, "g"), 0), sourcetest.Follower("kafka", pgtest.Msg(2, "g")), sourcetest.Dead("kafka", pgtest.Msg(3, "h"), true), sourcetest.Dead("audit", pgtest.Msg(4, ""), false),
				sourcetest.Head("audit", pgtest.Msg(5, "i"), time.Hour))
			r.Ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"i"}})
			r.Ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"mail"}})
			got, err := status.Read(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Sinks {
				if s := &got.Sinks[i]; s.Sink == "kafka" && (s.DueSeconds <= 0 || s.HeldSeconds <= 0 || s.UndeliveredSeconds <= 3600) {
					t.Errorf("ages: %+v", s)
				} else {
					s.DueSeconds, s.HeldSeconds, s.UndeliveredSeconds = 0, 0, 0
				}
			}
			pgtest.Equal(t, "sinks", got.Sinks, []report.SinkCount{{Sink: "audit", Retrying: 1, Dead: 1, Lanes: 1, HeldLanes: 1, Tables: map[string]int{"public.outbox": 2}},
				{Sink: "kafka", Retrying: 1, Waiting: 1, Dead: 1, Lanes: 2, HeldLanes: 1, Tables: map[string]int{"public.outbox": 3}}, {Sink: "mail", Paused: true}})
			if got.Holder == nil || got.Holder.PID != int(r.St.Conn.PgConn().PID()) {
				t.Errorf("holder: %+v", got.Holder)
			}
			if got.Slot == nil || got.Slot.Row["plugin"] != "pgoutput" || got.Slot.RetainedBytes <= 0 {
				t.Errorf("slot: %+v", got.Slot)
			}
			if got.Checkpoint == nil || got.Checkpoint.Resume != string(s.Resume()) || got.SourceID == "" {
				t.Errorf("checkpoint: %+v", got.Checkpoint)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
}
