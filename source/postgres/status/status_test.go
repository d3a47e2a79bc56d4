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
