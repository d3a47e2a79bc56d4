package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
)

// startOnce does what a start does up to the position, and ends without saving it.
func startOnce(r *pgtest.StoreRig) (source.Resume, error) {
	r.T.Helper()
	st, err := pgstore.Open(r.Ctx, r.Cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	defer func() { _ = st.Close(r.Ctx) }()
	loaded, err := st.Load(r.Ctx)
	if err != nil {
		return "", err
	}
	snap, err := source.Begin(r.Ctx, stream.New(r.Cfg), loaded.Checkpoint == nil)
	if err != nil {
		return "", err
	}
	return snap.Resume(), snap.Close(r.Ctx)
}

// refusedSlot checks that a slot that holds log is neither read nor dropped, and that all say what can be done.
func refusedSlot(r *pgtest.StoreRig, what string, wants ...string) {
	r.T.Helper()
	r.Exec("INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'a', 'b', 'T')")
	stands := func() string {
		return r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
	}
	before := stands()
	wants = append(wants, r.Cfg.Slot, "was not made by this pipeline", "choose another source.slot", "pg_drop_replication_slot")
	for range 2 { // a start that was refused leaves nothing behind that makes it the pipeline's own
		_, err := startOnce(r)
		if !errors.Is(err, source.ErrStop) {
			r.T.Fatalf("%s: a start: %v", what, err)
		}
		_, establish := stream.New(r.Cfg).Establish(r.Ctx)
		if !errors.Is(establish, source.ErrStop) {
			r.T.Fatalf("%s: establish: %v", what, establish)
		}
		for _, text := range []string{err.Error(), establish.Error(), pgtest.Levels(r.Check(), check.Problem)} {
			for _, want := range wants {
				if !strings.Contains(text, want) {
					r.T.Errorf("%s: %q lacks %q", what, text, want)
				}
			}
		}
	}
	pgtest.Equal(r.T, what+": the slot stands", stands(), before)
}

func TestSlotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Cfg.Start = "now"
	r.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.Cfg.Slot)
	refusedSlot(r, "never read by us", "source.take_over")
	// To take it over is no claim before there is a checkpoint.
	r.Cfg.TakeOver = true
	at := r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
	pgtest.Equal(t, "problems", pgtest.Levels(r.Check(), check.Problem), "")
	if resume, err := startOnce(r); err != nil || string(resume) != at {
		t.Fatalf("take over: %s, %v, want %s", resume, err, at)
	}
	r.Cfg.TakeOver = false
	refusedSlot(r, "not yet taken over", "source.take_over")
	r.Cfg.TakeOver = true
	r.Positioned()
	r.Cfg.TakeOver = false
	pgtest.Equal(t, "problems of one that was taken over", pgtest.Levels(r.Check(), check.Problem), "")
	if _, err := startOnce(r); err != nil {
		t.Errorf("a slot that was taken over: %v", err)
	}
}

// Without the pipeline's row, nothing tells how far the slot was read.
func TestSlotWithoutItsCheckpoint(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Cfg.Start = "now"
	r.Positioned()
	r.Exec("DELETE FROM tailbox_checkpoint")
	refusedSlot(r, "no row", "source.take_over")
	r.Cfg.TakeOver = true
	if _, err := startOnce(r); err != nil {
		t.Errorf("take over: %v", err)
	}
}

// A start that was killed between the slot and its checkpoint left a slot that nothing was read from.
func TestSlotHalfMade(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Cfg.Start = "now"
	first, err := startOnce(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec("INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'a', 'b', 'T')")
	pgtest.Equal(t, "problems", pgtest.Levels(r.Check(), check.Problem), "")
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Errorf("init: %v", err)
	}
	if again, err := startOnce(r); err != nil || again == first {
		t.Errorf("the second start: %s, %v", again, err)
	}
}

// A configuration that names another slot than before does not get somebody else's by that; one that is not there is made.
func TestSlotRenamed(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Cfg.Start = "now"
	r.Positioned()
	first := r.Cfg.Slot
	t.Cleanup(func() { r.Cfg.Slot = first; r.DropSlot() })
	r.Cfg.Slot += "_x"
	t.Cleanup(r.DropSlot)
	r.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.Cfg.Slot)
	refusedSlot(r, "renamed")
	if gap, err := Config(r.Cfg).Gap(r.Ctx); !errors.Is(err, source.ErrStop) {
		t.Errorf("gap: %+v, %v", gap, err)
	}
	if strings.Contains(pgtest.Levels(r.Check(), check.Problem), "take_over") {
		t.Error("take_over is offered to a pipeline that has a position")
	}
	r.Exec("SELECT pg_drop_replication_slot($1)", r.Cfg.Slot)
	if _, err := startOnce(r); err != nil {
		t.Errorf("a slot that is made: %v", err)
	}
	if _, err := startOnce(r); err != nil {
		t.Errorf("that slot once more: %v", err)
	}
}

// While the table is polled, the slot of before stays the pipeline's own, as long as it is there.
func TestSlotOfBeforePolling(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Cfg.Start = "now"
	r.Positioned()
	named := func() string { return r.Text("SELECT slot FROM tailbox_checkpoint") }
	poll := func() {
		t.Helper()
		r.Cfg.Poll = true
		r.Open()
		r.Cfg.Poll = false
		if err := r.St.Close(r.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	poll()
	pgtest.Equal(t, "slot", named(), r.Cfg.Slot)
	if _, err := startOnce(r); err != nil {
		t.Errorf("the log again: %v", err)
	}
	r.DropSlot()
	poll()
	pgtest.Equal(t, "slot, when it was dropped", named(), "")
}
