//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestKillKafka kills the relay again and again while it produces to a broker whose connections are cut, stalled and robbed
// of their answers, and which is itself killed now and then.
func TestKillKafka(t *testing.T) {
	broker := servers.Kafka(t)
	onKinds(t, func(t *testing.T, kind string) { killKafka(t, kind, broker) })
}

func killKafka(t *testing.T, kind string, broker *servers.KafkaServer) {
	t.Helper()
	ledger := NewLedger("kafka")
	topic := NewTopic(t, broker, 6, ledger)
	proxy := broker.Proxy(t)
	b := NewBed(t, Options{Kind: kind, Topic: topic.Name, Top: []string{retryFast}, Sinks: []string{
		fmt.Sprintf("kafka: {kind: kafka, brokers: [%q]}", proxy.Addr)}})
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: killRate(kind), Topic: topic.Name, Delivered: ledger.Count}
	load.Run(b)
	timer := time.AfterFunc(time.Hour, func() {})
	restore := func() {
		timer.Stop()
		if err := proxy.Restore(); err != nil {
			t.Fatal(err)
		}
		ledger.Loose(false)
	}
	later := func(fault func()) {
		ledger.Loose(true)
		// It begins before the relay is up, or while it works: its start takes about a tenth of a second.
		timer = time.AfterFunc(time.Duration(b.Rand.IntN(800))*time.Millisecond, fault)
	}
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger}
	all.Before = func(trial int) {
		restore()
		if trial%20 == 10 {
			if err := broker.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := broker.Start(); err != nil {
				t.Fatal(err)
			}
		}
		switch b.Rand.IntN(6) {
		case 0:
			later(proxy.LoseAnswers)
		case 1:
			later(func() { proxy.CutAnswersAfter(int64(trial * 100)) })
		case 2:
			later(proxy.Reset)
		case 3:
			later(proxy.Stall)
		}
	}
	all.Drained = func() {
		timer.Stop()
		proxy.Reset() // what it holds of the dead relay's requests is gone
		topic.CatchUp()
	}
	all.Kill(trials(t, killTrials(kind)))
	load.Stop()
	restore()
	all.Finish(2 * time.Minute)
}
