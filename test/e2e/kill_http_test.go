package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestKillHTTP kills the relay again and again while it posts to an endpoint that fails, hangs, resets connections, asks
// for patience, goes away, refuses what it kept, and has groups it does not take for a while. Each life of the relay uses
// another format.
func TestKillHTTP(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if quick && kind != "postgres" {
			continue // TestKillStdout has them
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			killHTTP(t, kind)
		})
	}
}

func killHTTP(t *testing.T, kind string) {
	t.Helper()
	ledger := NewLedger("hook")
	endpoint := NewEndpoint(t, ledger)
	options := func(format string, each bool) Options {
		return Options{Kind: kind, Top: []string{retryFast}, Sinks: []string{fmt.Sprintf(
			"hook: {kind: http, url: %q, format: %s, results: %v, timeout: 1s}", endpoint.URL(each), format, each)}}
	}
	b := NewBed(t, options("single", false))
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: quickRate / 2, Delivered: ledger.Count, Backlog: 5000, Churn: true}
	load.Run(b)
	endpoint.Misbehave(&Faults{Rand: rand.New(rand.NewPCG(b.Seed, 100)), Error: 10, Lie: 10, Hang: 3, Reset: 10,
		Throttle: 0.3, Part: 5, Sick: 2, SickFor: 3 * time.Second})
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger}
	all.Before = func(trial int) {
		format := []string{"single", "array", "cloudevents-batch", "cloudevents", "array"}[trial%5]
		b.Configure(options(format, format != "single" && format != "cloudevents" && b.Rand.IntN(2) == 0))
		if b.Rand.IntN(6) == 0 {
			endpoint.Down()
		} else {
			endpoint.Up()
		}
	}
	all.Kill(trials(t, killTrials(kind)))
	load.Stop()
	endpoint.Up()
	endpoint.Misbehave(nil)
	all.Finish(2 * time.Minute)
}
