package e2e

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestKillStdout kills the relay again and again while it writes to its standard output, whose reader stalls now and
// then: nothing is lost, nothing is overtaken, and only what was not settled comes again.
func TestKillStdout(t *testing.T) {
	t.Parallel()
	onKinds(t, func(t *testing.T, kind string) {
		t.Parallel()
		killStdout(t, kind)
	})
}

func killStdout(t *testing.T, kind string) {
	t.Helper()
	b := NewBed(t, Options{Kind: kind, Sinks: []string{"out: {kind: stdout}"}})
	b.MustCommand("init")
	ledger, truth := NewLedger("out"), NewTruth(b)
	lines := &Lines{Ledger: ledger, Stalls: 300 * time.Millisecond, Rand: rand.New(rand.NewPCG(b.Seed, 100))}
	load := &Load{Rate: killRate(kind), Delivered: ledger.Count, Churn: true}
	load.Run(b)
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger, Stdout: lines.Read}
	all.Kill(trials(t, killTrials(kind)))
	load.Stop()
	all.Finish(2 * time.Minute)
}

// killRate is how many messages a second are written: fewer where the relay, which begins anew all the time, would never catch up, so
// that a kill would excuse everything.
func killRate(kind string) float64 {
	if kind == "mongodb" {
		return quickRate / 3
	}
	return quickRate
}
