//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// soakSample is what one look at a relay shows.
type soakSample struct{ rss, goroutines, files, held float64 }

// TestSoak runs one relay for long, with an endpoint that misbehaves a little all the time, outages, and a database that is
// killed now and then: nothing is lost, and nothing grows.
func TestSoak(t *testing.T) {
	lasts := period(t, "TAILBOX_E2E_SOAK", 2*time.Minute)
	admin := servers.FreeAddr(t)
	h := newHook(t, Options{Own: true, Top: []string{retryFast, "memory: 32MiB", "admin: {listen: " + admin + "}"}}, ", timeout: 4s, format: cloudevents-batch") // more than a busy machine lets an answer take, as in killServer
	h.MustCommand("init")
	load := &Load{Rate: 1500, Delivered: h.ledger.Count, Churn: true}
	load.Run(h.Bed)
	h.endpoint.Misbehave(&Faults{Rand: rand.New(rand.NewPCG(h.Seed, 100)), Error: 1, Lie: 1, Hang: 0.3, Reset: 1, Throttle: 0.1,
		Sick: 0.3, SickFor: 10 * time.Second})
	r := h.Start(nil)
	var samples []soakSample
	began := time.Now()
	for second := 0; time.Since(began) < lasts; second++ {
		Pause(time.Second)
		switch second % 60 {
		case 20:
			h.endpoint.Down()
		case 30:
			h.endpoint.Up()
		case 45:
			h.restartServer(r)
		}
		if values, err := Metrics(admin); err == nil {
			samples = append(samples, h.sample(t, r, values))
		}
	}
	h.endpoint.Up()
	h.endpoint.Misbehave(nil)
	load.Stop()
	h.complete(r)
	if len(samples) < 30 {
		t.Fatalf("samples: got %d, want at least 30", len(samples))
	}
	third := len(samples) / 3
	first, last := peak(samples[:third]), peak(samples[len(samples)-third:])
	t.Logf("peaks of the first third: RSS %.0f MiB, %.0f goroutines, %.0f files; of the last: %.0f MiB, %.0f, %.0f; log held at most %.1f MiB",
		first.rss/(1<<20), first.goroutines, first.files, last.rss/(1<<20), last.goroutines, last.files, peak(samples).held/(1<<20))
	if last.rss > 1.5*first.rss+16<<20 || last.goroutines > 2*first.goroutines+20 || last.files > 2*first.files+20 {
		t.Error("the relay grows")
	}
	size := Ask[int64](h.Bed, `SELECT pg_total_relation_size('tailbox_checkpoint')`)
	t.Logf("tailbox_checkpoint has %d KiB", size>>10)
}

// restartServer kills the database and starts it again, noting what was not settled.
func (h *hook) restartServer(r *Relay) {
	h.tb.Helper()
	if err := h.PG.Kill(); err != nil {
		h.tb.Fatal(err)
	}
	Pause(time.Second) // the relay's calls end before what is not settled is looked at
	r.Signal(syscall.SIGSTOP)
	if err := h.PG.Start(); err != nil {
		h.tb.Fatal(err)
	}
	pending, err := h.Pending(context.Background())
	if err != nil {
		h.tb.Fatal(err)
	}
	h.ledger.Killed(pending)
	r.Signal(syscall.SIGCONT)
}

// sample looks at a relay.
func (h *hook) sample(t *testing.T, r *Relay, values map[string]float64) soakSample {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	held, err := TryAsk[int64](h.Bed, `SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1`,
		h.Slot("relay"))
	if err != nil {
		t.Fatal(err)
	}
	usage, err := r.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return soakSample{float64(usage.RSS), values["go_goroutines"], float64(len(files)), float64(held)}
}

// peak is the highest of each.
func peak(samples []soakSample) (p soakSample) {
	for s := range slices.Values(samples) {
		p = soakSample{max(p.rss, s.rss), max(p.goroutines, s.goroutines), max(p.files, s.files), max(p.held, s.held)}
	}
	return p
}
