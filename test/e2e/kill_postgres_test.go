//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestKillPostgres kills the database server under a relay again and again, with producers that do not wait for the disk:
// what the server forgot was never delivered, and what it remembers is.
func TestKillPostgres(t *testing.T) {
	for _, commit := range []string{"on", "off"} {
		t.Run("synchronous_commit="+commit, func(t *testing.T) {
			ledger := NewLedger("hook")
			endpoint := NewEndpoint(t, ledger)
			b := NewBed(t, Options{Own: true, Settings: []servers.Option{servers.WithSetting("synchronous_commit", commit)},
				Top:   []string{retryFast},
				Sinks: []string{fmt.Sprintf("hook: {kind: http, url: %q, timeout: 1s}", endpoint.URL(false))}})
			b.MustCommand("init")
			truth := NewTruth(b)
			load := &Load{Rate: 4000, Delivered: ledger.Count, Churn: true}
			load.Run(b)
			endpoint.Misbehave(&Faults{Rand: rand.New(rand.NewPCG(b.Seed, 100)), Error: 2, Lie: 2, Hang: 1, Reset: 2, Sick: 0.5, SickFor: 3 * time.Second})
			all := &Trials{Bed: b, Truth: truth, Ledger: ledger, MinLife: time.Second, MaxLife: 4 * time.Second}
			all.KillPostgres(trials(t, 12))
			load.Stop()
			endpoint.Misbehave(nil)
			all.Finish(2 * time.Minute)
		})
	}
}
