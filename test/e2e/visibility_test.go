//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// hook is a bed with one HTTP endpoint, its ledger and the truth.
type hook struct {
	*Bed
	endpoint *Endpoint
	ledger   *Ledger
	truth    *Truth
}

func newHook(t *testing.T, o Options, keys string) *hook {
	t.Helper()
	h := &hook{ledger: NewLedger("hook")}
	h.endpoint = NewEndpoint(t, h.ledger)
	if !strings.Contains(keys, "timeout:") {
		keys += ", timeout: 2s"
	}
	o.Sinks = []string{fmt.Sprintf("hook: {kind: http, url: %q%s}", h.endpoint.URL(false), keys)}
	h.Bed = NewBed(t, o)
	h.truth = NewTruth(h.Bed)
	return h
}

// complete wants everything settled and delivered, each message once but for what kills explain, and the log released.
func (h *hook) complete(r *Relay) {
	h.tb.Helper()
	h.AwaitSettled(time.Minute)
	h.ledger.AwaitAll(h.truth, time.Minute)
	h.wantReleased(1 << 20) // while it runs: a relay that is stopped at once has not read what it wrote itself at last
	r.Stop()
	h.truth.CatchUp()
	h.ledger.Check(h.truth, true)
	h.ledger.Verdict(h.tb)
	h.tb.Log(h.ledger)
}

// wantReleased wants the slot to follow the log, so that the server can discard it.
func (h *hook) wantReleased(most int64) {
	h.tb.Helper()
	h.Eventually(time.Minute, func() string {
		if held := h.HeldWAL(); held > most {
			return fmt.Sprintf("the slot holds %d bytes of log, want at most %d", held, most)
		}
		return ""
	})
}

// TestSlowStandby delays every commit by a synchronous standby that freezes again and again: the log shows transactions
// that are not visible yet, and settling waits as well. Nothing stays pending, nothing comes twice.
func TestSlowStandby(t *testing.T) {
	h := newHook(t, Options{Own: true}, "")
	h.MustCommand("init")
	standby := h.PG.AddStandby(t)
	ctx := context.Background()
	if err := h.PG.RequireStandby(ctx, standby); err != nil {
		t.Fatal(err)
	}
	load := &Load{Rate: 2000, Delivered: h.ledger.Count, MaxRows: 100}
	load.Run(h.Bed)
	r := h.Start(nil)
	for i := range 20 {
		Pause(time.Duration(h.Rand.IntN(500)) * time.Millisecond)
		if err := standby.Pause(); err != nil {
			t.Fatal(err)
		}
		Pause(time.Duration(100+h.Rand.IntN(1500)) * time.Millisecond)
		if i%7 == 6 { // while nothing it settles becomes visible
			r.Kill()
		}
		if err := standby.Resume(); err != nil {
			t.Fatal(err)
		}
		if !r.Running() {
			h.afterKill()
			r = h.Start(nil)
		}
	}
	load.Stop()
	if err := h.PG.RequireStandby(ctx, nil); err != nil {
		t.Fatal(err)
	}
	h.complete(r)
}

// afterKill notes what a kill left unsettled.
func (h *hook) afterKill() {
	h.tb.Helper()
	// What the dead relay's session was committing when it died is decided once it is gone.
	h.Eventually(time.Minute, func() string {
		return Ask[string](h.Bed, `SELECT coalesce(string_agg(state || ': ' || query, ', '), '') FROM pg_stat_activity
			WHERE application_name LIKE 'tailbox%' AND datname = current_database() AND state <> 'idle'`)
	})
	pending, err := h.Pending(context.Background())
	if err != nil {
		h.tb.Fatal(err)
	}
	if early := h.ConfirmedEarly(); early != "" {
		h.tb.Fatal(early)
	}
	h.ledger.Killed(pending)
	h.truth.CatchUp()
	h.ledger.Check(h.truth, false)
}

// TestAsynchronousCommit has producers that do not wait for the disk, without any fault: each message comes once.
func TestAsynchronousCommit(t *testing.T) {
	for _, where := range []string{"producers", "database"} {
		t.Run(where, func(t *testing.T) {
			o := Options{}
			load := &Load{Rate: 3000}
			if where == "database" {
				o = Options{Own: true, Settings: []servers.Option{servers.WithSetting("synchronous_commit", "off")}}
			} else {
				load.Prepare = "SET synchronous_commit = off"
			}
			h := newHook(t, o, "")
			h.MustCommand("init")
			load.Delivered = h.ledger.Count
			load.Run(h.Bed)
			r := h.Start(nil)
			Pause(10 * time.Second)
			load.Stop()
			h.complete(r)
			if h.ledger.Stats.Duplicates > 0 {
				t.Errorf("duplicates: got %d, want none", h.ledger.Stats.Duplicates)
			}
		})
	}
}

// TestTruncate removes the rows of outbox under load, by the transactions that insert them and by TRUNCATE: each message
// comes once all the same, and the log is released.
func TestTruncate(t *testing.T) {
	h := newHook(t, Options{}, "")
	h.MustCommand("init")
	load := &Load{Rate: 3000, Delivered: h.ledger.Count, Churn: true}
	load.Run(h.Bed)
	r := h.Start(nil)
	for range 30 {
		Pause(time.Duration(h.Rand.IntN(500)) * time.Millisecond)
		h.Exec("TRUNCATE outbox")
	}
	load.Stop()
	h.complete(r)
	if h.ledger.Stats.Duplicates > 0 {
		t.Errorf("duplicates: got %d, want none", h.ledger.Stats.Duplicates)
	}
}
