package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// A slot that somebody else left is where a pipeline without a position begins, whatever the table holds.
func TestTakeSlotOver(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	r.Cfg.TakeOver, r.Cfg.Start = true, "now"
	r.Src = stream.New(r.Cfg)
	insert := func(kind string) {
		r.Exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', $1), ('a', '2', $1)", kind)
	}
	r.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.Cfg.Slot)
	insert("sent")
	r.Exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", r.Cfg.Slot)
	insert("left")
	if _, err := setup.Init(context.Background(), r.Cfg); err != nil {
		t.Fatal(err)
	}
	taken, err := r.Src.TakeOver(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if sweep, err := taken.Judge(context.Background(), source.Known{First: true}); sweep || err != nil {
		t.Errorf("Judge returned %v, %v", sweep, err)
	}
	if want := r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot); string(taken.Resume()) != want {
		t.Errorf("position %s, want that of the slot, %s", taken.Resume(), want)
	}
	x := r.Run(source.Start{From: taken.Resume()})
	insert("new")
	ms, _ := x.Messages(4)
	for i, want := range []string{"left", "left", "new", "new"} {
		if ms[i].Type != want {
			t.Errorf("message %d is %s, want %s", i, ms[i].Type, want)
		}
	}
	if err := x.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestTakeSlotOverRefuses(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	r.Cfg.TakeOver, r.Cfg.Start = true, "now"
	r.Src = stream.New(r.Cfg)
	if _, err := setup.Init(context.Background(), r.Cfg); err != nil {
		t.Fatal(err)
	}
	// A foreign slot.
	r.Exec("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", r.Cfg.Slot)
	if _, err := r.Src.TakeOver(context.Background()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "test_decoding") {
		t.Errorf("TakeOver returned %v", err)
	}
	r.Exec("SELECT pg_drop_replication_slot($1)", r.Cfg.Slot)
	// None: the name may be wrong.
	if _, err := r.Src.TakeOver(context.Background()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "there is no slot") || !strings.Contains(err.Error(), "source.slot") {
		t.Errorf("TakeOver returned %v", err)
	}
	r.Cfg.TakeOver = false
	r.Src = stream.New(r.Cfg)
	made, err := source.Begin(context.Background(), r.Src, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if r.Text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot) != "1" {
		t.Error("no slot was made where there was none to take over")
	}
	// One of ours that fell behind its checkpoint is made anew, not taken over.
	r.Own()
	r.Exec("UPDATE tailbox_checkpoint SET resume = '0/1'")
	before := r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
	again, err := r.Src.Establish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if string(again.Resume()) == before {
		t.Errorf("position %s is that of the old slot", before)
	}
	if err := again.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
