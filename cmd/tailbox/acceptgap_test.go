package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

const keepConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{on_delivered: keep}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestAcceptGap: consent is for the gap that is there when it is asked for. Without a gap it is refused, and none of it is left
// for a later one.
func TestAcceptGap(t *testing.T) {
	t.Parallel()
	r := newRig(t, keepConfig)
	accept := func() result { return r.command("accept-gap", "--why", "test") }
	if got := accept(); got.code != exitAct || !strings.Contains(got.err, "run tailbox init") {
		t.Errorf("before init: %+v", got)
	}
	r.must("init")
	if got := accept(); got.code != exitFailed || !strings.Contains(got.err, "there is no gap") {
		t.Errorf("without a gap: %+v", got)
	}
	stop := r.relay()
	r.must("send", "--type", "first", "--group", "a:1", "{}")
	until(t, "the first message", func() bool { return len(r.delivered()) == 1 })
	if got := accept(); got.code != exitFailed || !strings.Contains(got.err, "there is no gap") {
		t.Errorf("beside a relay: %+v", got)
	}
	stop()
	for i, lost := range []string{"second", "fourth"} {
		r.dropSlot()
		r.must("send", "--type", lost, "--group", "a:1", "{}")
		if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "accept-gap") {
			t.Fatalf("run with gap %d: %+v", i, got)
		}
		if out := r.must("accept-gap", "--why", "test"); !strings.Contains(out, "the gap: replication slot") || !strings.Contains(out, "the next tailbox run does it") {
			t.Errorf("accept-gap: %s", out)
		}
		// Said twice, it is not left over for the next gap.
		r.must("accept-gap", "--why", "test")
		stop := r.relay()
		until(t, "the new position", func() bool { return !strings.Contains(r.must("status"), "not carried out yet") })
		r.must("send", "--type", "after", "--group", "a:1", "{}")
		until(t, "the message after the gap", func() bool { return len(r.delivered()) == i+2 })
		stop()
	}
	if got := strings.Join(r.delivered(), " "); got != "first after after" {
		t.Errorf("delivered %s", got)
	}
}

// TestPublicationMadeAnew: what was written while there was no publication cannot be read from the log by the slot of before,
// though that is there and valid. Rows that tell whether they were delivered heal it; else the operator is asked, once.
func TestPublicationMadeAnew(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"delete": rigConfig, "keep": keepConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, config)
			r.must("init")
			r.must("send", "--type", "zeroth", "--group", "a:1", "{}")
			stop := r.relay()
			until(t, "the message before", func() bool { return len(r.delivered()) == 1 })
			stop()
			r.sql("DROP PUBLICATION tailbox_shop")
			r.must("send", "--type", "first", "--group", "a:1", "{}")
			r.must("init")
			if name == "keep" {
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
				defer cancel()
				if got := r.with(ctx, "run"); got.code != exitAct || !strings.Contains(got.err, "accept-gap") {
					t.Fatalf("run: %+v", got)
				}
				r.must("accept-gap", "--why", "test")
			}
			stop = r.relay()
			until(t, "a new position", func() bool { return !strings.Contains(r.must("status"), ", log 1,") })
			r.must("send", "--type", "second", "--group", "a:1", "{}")
			until(t, "the message after it", func() bool { return slices.Contains(r.delivered(), "second") })
			stop()
			want := []string{"zeroth", "first", "second"}
			if name == "keep" {
				want = []string{"zeroth", "second"}
			}
			if got := r.delivered(); !slices.Equal(got, want) {
				t.Errorf("delivered %v, want %v", got, want)
			}
		})
	}
}

// TestSlotAheadOfTheCheckpoint: a slot that a failover synchronised may be ahead of the checkpoint. While an operator is asked it is left as it is; with
// his consent the relay goes on from where it stands, and only what is behind that is given up.
func TestSlotAheadOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t, keepConfig)
	r.must("init")
	r.must("send", "--type", "first", "--group", "a:1", "{}")
	stop := r.relay()
	until(t, "the first message", func() bool { return len(r.delivered()) == 1 })
	stop()
	r.must("send", "--type", "lost", "--group", "a:1", "{}")
	r.freeSlot()
	r.sql("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", r.env["SLOT"])
	r.must("send", "--type", "held", "--group", "a:1", "{}")
	slot := func() (text string) {
		if err := r.conn.QueryRow(t.Context(), "SELECT confirmed_flush_lsn || ' ' || restart_lsn FROM pg_replication_slots WHERE slot_name = $1", r.env["SLOT"]).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := slot()
	for range 2 {
		if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "accept-gap") {
			t.Fatalf("run: %+v", got)
		}
		if after := slot(); after != before {
			t.Fatalf("the slot was at %s, and is at %s before anybody agreed", before, after)
		}
	}
	r.must("accept-gap", "--why", "test")
	r.relay()
	until(t, "what the slot holds", func() bool { return slices.Contains(r.delivered(), "held") })
	r.must("send", "--type", "after", "--group", "a:1", "{}")
	until(t, "the message after it", func() bool { return slices.Contains(r.delivered(), "after") })
	if got := strings.Join(r.delivered(), " "); got != "first held after" {
		t.Errorf("delivered %s", got)
	}
}

func (r *rig) dropSlot() {
	r.t.Helper()
	r.freeSlot()
	r.sql("SELECT pg_drop_replication_slot($1)", r.env["SLOT"])
}

// freeSlot waits until nobody reads the slot.
func (r *rig) freeSlot() {
	r.t.Helper()
	until(r.t, "the slot to be free", func() bool {
		var active bool
		err := r.conn.QueryRow(r.t.Context(), "SELECT active FROM pg_replication_slots WHERE slot_name = $1", r.env["SLOT"]).Scan(&active)
		if err != nil {
			r.t.Fatal(err)
		}
		return !active
	})
}

// TestLostBeforeTheFirstMessage: a position that is lost before anything was settled was a position all the same: what was committed since it was
// made is not what source.start is about. Until the first sweep has ended, that goes on as if it had not begun.
func TestLostBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"now", "pending"} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, strings.Replace(keepConfig, "reconcile: 0s", "reconcile: 0s, start: "+start, 1))
			r.sql(r.must("init", "--print"))
			r.must("send", "--type", "before", "--group", "a:1", "{}")
			r.must("init")
			r.dropSlot()
			r.must("send", "--type", "since", "--group", "a:1", "{}")
			if start == "now" {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got := r.with(ctx, "run"); got.code != exitAct || !strings.Contains(got.err, "accept-gap") {
					t.Fatalf("run: %+v", got)
				}
				return
			}
			r.relay()
			until(t, "both messages", func() bool { return strings.Join(r.delivered(), " ") == "before since" })
		})
	}
}
