//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestSoftStop stops the relay again and again, softly, at whatever it is doing: what was delivered is settled, and nothing comes twice.
func TestSoftStop(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		ledger := NewLedger("hook")
		endpoint := NewEndpoint(t, ledger)
		b := NewBed(t, Options{Kind: kind, Top: []string{retryFast}, Sinks: []string{
			fmt.Sprintf("hook: {kind: http, url: %q, format: single}", endpoint.URL(false))}})
		b.MustCommand("init")
		truth := NewTruth(b)
		load := &Load{Rate: 1000, Delivered: ledger.Count, Backlog: 3000}
		load.Run(b)
		for range trials(t, 20) {
			r := b.Start(nil)
			Pause(time.Duration(b.Rand.IntN(600)) * time.Millisecond)
			r.Stop()
		}
		load.Stop()
		all := &Trials{Bed: b, Truth: truth, Ledger: ledger}
		all.Finish(time.Minute)
	})
}
