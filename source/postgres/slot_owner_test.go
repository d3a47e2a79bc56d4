package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// newOwnerRig is a database with all that init makes but for slot and checkpoint.
func newOwnerRig(t *testing.T) *storeRig {
	t.Helper()
	r := newBareRig(t, servers.Shared(t, "17"), shape("debezium", "outbox"))
	script, err := r.cfg.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	r.exec(script)
	return r
}

// start does what a start does up to the position, and ends without saving it.
func (r *storeRig) start() (source.Resume, error) {
	r.t.Helper()
	st, err := openStore(r.ctx, r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = st.Close(r.ctx) }()
	if _, err := st.Load(r.ctx); err != nil {
		return "", err
	}
	snap, err := New(r.cfg).Establish(r.ctx)
	if err != nil {
		return "", err
	}
	return snap.Resume(), snap.Close(r.ctx)
}

// positioned does what a first start does.
func (r *storeRig) positioned() {
	r.t.Helper()
	r.open()
	snap, err := New(r.cfg).Establish(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "1/1", Resume: snap.Resume(), Log: 1}); err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(snap.Close(r.ctx), r.st.Close(r.ctx)); err != nil {
		r.t.Fatal(err)
	}
}

// refused checks that a slot that holds log is neither read nor dropped, and that all say what can be done.
func (r *storeRig) refused(what string, wants ...string) {
	r.t.Helper()
	r.exec("INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'a', 'b', 'T')")
	stands := func() string {
		return r.text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
	}
	before := stands()
	wants = append(wants, r.cfg.Slot, "was not made by this pipeline", "choose another source.slot", "pg_drop_replication_slot")
	for range 2 { // a start that was refused leaves nothing behind that makes it the pipeline's own
		_, err := r.start()
		if !errors.Is(err, source.ErrStop) {
			r.t.Fatalf("%s: a start: %v", what, err)
		}
		_, establish := New(r.cfg).Establish(r.ctx)
		if !errors.Is(establish, source.ErrStop) {
			r.t.Fatalf("%s: establish: %v", what, establish)
		}
		for _, text := range []string{err.Error(), establish.Error(), levels(r.check(), Problem)} {
			for _, want := range wants {
				if !strings.Contains(text, want) {
					r.t.Errorf("%s: %q lacks %q", what, text, want)
				}
			}
		}
	}
	equal(r.t, what+": the slot stands", stands(), before)
}

func TestSlotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r := newOwnerRig(t)
	r.cfg.Start = "now"
	r.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.cfg.Slot)
	r.refused("never read by us", "source.take_over")
	// To take it over is no claim before there is a checkpoint.
	r.cfg.TakeOver = true
	at := r.text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
	equal(t, "problems", levels(r.check(), Problem), "")
	if resume, err := r.start(); err != nil || string(resume) != at {
		t.Fatalf("take over: %s, %v, want %s", resume, err, at)
	}
	r.cfg.TakeOver = false
	r.refused("not yet taken over", "source.take_over")
	r.cfg.TakeOver = true
	r.positioned()
	r.cfg.TakeOver = false
	equal(t, "problems of one that was taken over", levels(r.check(), Problem), "")
	if _, err := r.start(); err != nil {
		t.Errorf("a slot that was taken over: %v", err)
	}
}

// Without the pipeline's row, nothing tells how far the slot was read.
func TestSlotWithoutItsCheckpoint(t *testing.T) {
	t.Parallel()
	r := newOwnerRig(t)
	r.cfg.Start = "now"
	r.positioned()
	r.exec("DELETE FROM tailbox_checkpoint")
	r.refused("no row", "source.take_over")
	r.cfg.TakeOver = true
	if _, err := r.start(); err != nil {
		t.Errorf("take over: %v", err)
	}
}

// A start that was killed between the slot and its checkpoint left a slot that nothing was read from.
func TestSlotHalfMade(t *testing.T) {
	t.Parallel()
	r := newOwnerRig(t)
	r.cfg.Start = "now"
	first, err := r.start()
	if err != nil {
		t.Fatal(err)
	}
	r.exec("INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'a', 'b', 'T')")
	equal(t, "problems", levels(r.check(), Problem), "")
	if _, err := r.cfg.Init(r.ctx); err != nil {
		t.Errorf("init: %v", err)
	}
	if again, err := r.start(); err != nil || again == first {
		t.Errorf("the second start: %s, %v", again, err)
	}
}

// A configuration that names another slot than before does not get somebody else's by that; one that is not there is made.
func TestSlotRenamed(t *testing.T) {
	t.Parallel()
	r := newOwnerRig(t)
	r.cfg.Start = "now"
	r.positioned()
	first := r.cfg.Slot
	t.Cleanup(func() { r.cfg.Slot = first; r.dropSlot() })
	r.cfg.Slot += "_x"
	t.Cleanup(r.dropSlot)
	r.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.cfg.Slot)
	r.refused("renamed")
	if gap, err := r.cfg.Gap(r.ctx); !errors.Is(err, source.ErrStop) {
		t.Errorf("gap: %+v, %v", gap, err)
	}
	if strings.Contains(levels(r.check(), Problem), "take_over") {
		t.Error("take_over is offered to a pipeline that has a position")
	}
	r.exec("SELECT pg_drop_replication_slot($1)", r.cfg.Slot)
	if _, err := r.start(); err != nil {
		t.Errorf("a slot that is made: %v", err)
	}
	if _, err := r.start(); err != nil {
		t.Errorf("that slot once more: %v", err)
	}
}

// While the table is polled, the slot of before stays the pipeline's own, as long as it is there.
func TestSlotOfBeforePolling(t *testing.T) {
	t.Parallel()
	r := newOwnerRig(t)
	r.cfg.Start = "now"
	r.positioned()
	named := func() string { return r.text("SELECT slot FROM tailbox_checkpoint") }
	poll := func() {
		t.Helper()
		r.cfg.Poll = true
		r.open()
		r.cfg.Poll = false
		if err := r.st.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
	poll()
	equal(t, "slot", named(), r.cfg.Slot)
	if _, err := r.start(); err != nil {
		t.Errorf("the log again: %v", err)
	}
	r.dropSlot()
	poll()
	equal(t, "slot, when it was dropped", named(), "")
}
