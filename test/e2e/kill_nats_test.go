package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestKillNATS kills the relay again and again while it publishes to a NATS server whose connections are cut, stalled and
// robbed of their answers, and which is itself killed now and then.
func TestKillNATS(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if quick && kind != "postgres" {
			continue // TestKillStdout has them
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			killNATS(t, kind)
		})
	}
}

func killNATS(t *testing.T, kind string) {
	t.Helper()
	ledger := NewLedger("nats")
	server := servers.NATS(t, servers.NATSOptions{})
	stream := NewStream(t, server, ledger)
	proxy := servers.NewProxy(t, server.Addr())
	b := NewBed(t, Options{Kind: kind, Topic: stream.Name, Top: []string{retryFast}, Sinks: []string{
		fmt.Sprintf("nats: {kind: nats, servers: [%q], stream: %s, timeout: 1s}", "nats://"+proxy.Addr, stream.Name)}})
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: quickRate / 2, Topic: stream.Name, Delivered: ledger.Count, Backlog: 5000}
	load.Run(b)
	timer := time.AfterFunc(time.Hour, func() {})
	var restarting sync.Mutex
	restore := func() {
		timer.Stop()
		if err := proxy.Restore(); err != nil {
			t.Fatal(err)
		}
		ledger.Loose(false)
	}
	later := func(fault func()) {
		ledger.Loose(true)
		timer = time.AfterFunc(time.Duration(b.Rand.IntN(800))*time.Millisecond, fault)
	}
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger}
	all.Before = func(trial int) {
		restore()
		switch b.Rand.IntN(7) {
		case 0:
			later(proxy.LoseAnswers)
		case 1:
			later(func() { proxy.CutAnswersAfter(int64(trial * 100)) })
		case 2:
			later(proxy.Reset)
		case 3:
			later(proxy.Stall)
		case 4, 5:
			// It is back before the relay ends, or with the next one.
			later(func() {
				restarting.Lock()
				defer restarting.Unlock()
				if err := server.Kill(); err != nil {
					t.Error(err)
				}
				if err := server.Start(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Drained = func() {
		timer.Stop()
		proxy.Reset() // what it holds of the dead relay's messages is gone
		stream.CatchUp()
	}
	all.Kill(trials(t, killTrials(kind)))
	load.Stop()
	restore()
	restarting.Lock()
	defer restarting.Unlock()
	all.Finish(2 * time.Minute)
}
