//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestKillServer kills the database server under a relay again and again, and the relay goes on by itself. Where applications
// do not wait for the disk, what the server forgot was never delivered, and what it remembers is.
func TestKillServer(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) { killServer(t, Options{Kind: kind}) })
	t.Run("postgres, asynchronous commits", func(t *testing.T) {
		killServer(t, Options{Settings: []servers.Option{servers.WithSetting("synchronous_commit", "off")}})
	})
}

func killServer(t *testing.T, o Options) {
	t.Helper()
	ledger := NewLedger("hook")
	endpoint := NewEndpoint(t, ledger)
	o.Own, o.Top = true, []string{retryFast}
	// An answer that comes just too late is kept by the endpoint, which cannot see that nobody waited for it: the time is longer than
	// a busy machine lets it take.
	o.Sinks = []string{fmt.Sprintf("hook: {kind: http, url: %q, timeout: 4s}", endpoint.URL(false))}
	b := NewBed(t, o)
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: 4000, Delivered: ledger.Count, Churn: true}
	load.Run(b)
	endpoint.Misbehave(&Faults{Rand: rand.New(rand.NewPCG(b.Seed, 100)), Error: 2, Lie: 2, Hang: 1, Reset: 2, Sick: 0.5, SickFor: 3 * time.Second})
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger, MinLife: time.Second, MaxLife: 4 * time.Second}
	all.KillServer(trials(t, 12))
	load.Stop()
	endpoint.Misbehave(nil)
	all.Finish(2 * time.Minute)
}
