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
	load := &Load{Rate: quickRate, Delivered: ledger.Count, Churn: true}
	load.Run(b)
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger, Stdout: lines.Read}
	all.Kill(trials(t, killTrials(kind)))
	load.Stop()
	all.Finish(2 * time.Minute)
}
