//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	poisonPrefix   = "poison "
	poisonAttempts = 4
	behindPoison   = 3 // messages of each group that wait for its poison
	othersRate     = 200
	// How long the others are watched before and after there is poison of a kind, and at least while there is.
	othersCalm   = 8 * time.Second
	othersBeside = 16 * time.Second
)

// TestPoisons has messages to which alone an endpoint answers with what looks like an outage, for ever, among others that it takes. Each is dead
// within its attempts, its group waits, and the others are as fast as without them.
func TestPoisons(t *testing.T) {
	hang, reset := Answer{Drop: true, Hang: true}, Answer{Drop: true, Reset: true}
	var running sync.WaitGroup
	for _, n := range []int{1, 31} {
		running.Go(func() {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				a := newAmong(t)
				calm := a.take(othersCalm)
				for _, kind := range []struct {
					name   string
					answer Answer
				}{{"500", Answer{Status: 500, Drop: true}}, {"502", Answer{Status: 502, Drop: true}}, {"403", Answer{Status: 403, Drop: true}},
					{"timeout", hang}, {"cut connection", reset}} {
					over := time.After(othersBeside)
					took := a.poison(kind.answer, n)
					<-over
					beside := a.watch.take()
					after := a.take(othersCalm)
					a.compare(kind.name, took, calm, beside, after)
					calm = after
				}
				a.finish()
			})
		})
	}
	running.Wait()
}

// among is a relay to an endpoint that takes everything but poison.
type among struct {
	*Bed
	ledger *Ledger
	watch  stopwatch
	truth  *Truth
	load   *Load
	relay  *Relay

	mu     sync.Mutex
	answer Answer        // to poison
	asked  map[int64]int // how often a message of the poison's groups was sent
	heads  []int64       // the poison
	ids    []int64       // of its groups
}

func newAmong(t *testing.T) *among {
	t.Helper()
	a := &among{ledger: NewLedger("http"), asked: map[int64]int{}}
	endpoint := NewEndpoint(t, a.ledger)
	endpoint.Answer(func(q Request) Answer {
		d := q.Deliveries[0]
		if !strings.HasPrefix(groupOf(d), "order:"+poisonPrefix) {
			return a.watch.answer(q)
		}
		var id int64
		if _, err := fmt.Sscan(d.ID, &id); err != nil {
			t.Errorf("id %q: %v", d.ID, err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[id]++
		return a.answer
	})
	a.Bed = NewBed(t, Options{Top: []string{fmt.Sprintf("retry: {attempts: %d}", poisonAttempts)},
		Sinks: []string{fmt.Sprintf("out: {kind: http, url: %q, format: single, timeout: 2s}", endpoint.URL(false))}})
	a.MustCommand("init")
	a.truth = NewTruth(a.Bed)
	a.load = &Load{Rate: othersRate, Rows: 1, Groups: 50, Tables: "outbox"}
	a.load.Run(a.Bed)
	a.relay = a.Start(nil)
	a.Eventually(30*time.Second, func() string {
		if n := a.ledger.Count(); n < 5*othersRate {
			return fmt.Sprintf("%d messages were delivered, want %d", n, 5*othersRate)
		}
		return ""
	})
	a.watch.take()
	return a
}

// take measures the others for a while.
func (a *among) take(d time.Duration) []time.Duration {
	Pause(d)
	return a.watch.take()
}

// poison writes n messages that the endpoint answers so to, and others behind each. It waits until they are dead, and nothing else is, and
// returns how long that took.
func (a *among) poison(answer Answer, n int) time.Duration {
	a.tb.Helper()
	a.mu.Lock()
	a.answer = answer
	a.mu.Unlock()
	began := time.Now()
	for range n {
		ids := a.insertOutbox(poisonPrefix+fmt.Sprint(len(a.heads)), 1+behindPoison)
		a.ids, a.heads = append(a.ids, ids...), append(a.heads, ids[0])
	}
	a.Eventually(2*time.Minute, func() string {
		dead, err := Rows[int64](a.context(), a.Bed, `SELECT message_id::bigint FROM tailbox_parked WHERE state = 'dead' ORDER BY 1`)
		if !slices.Equal(dead, a.heads) || err != nil {
			return fmt.Sprintf("dead are %v, want %v (%v)", dead, a.heads, err)
		}
		return ""
	})
	return time.Since(began)
}

// compare wants the others to have been about as fast beside poison as before and after.
func (a *among) compare(kind string, dead time.Duration, before, beside, after []time.Duration) {
	a.tb.Helper()
	p99 := func(laps []time.Duration) time.Duration { return Quantile(laps, 0.99).Round(10 * time.Microsecond) }
	a.tb.Logf("%s: dead after %v; others: p50 %v before, %v beside it, p99 %v before, %v beside it, %v after; %d delivered beside it", kind,
		dead.Round(10*time.Millisecond), Quantile(before, 0.5), Quantile(beside, 0.5), p99(before), p99(beside), p99(after), len(beside))
	if limit := max(p99(before), p99(after))*3/2 + 20*time.Millisecond; p99(beside) > limit {
		a.tb.Errorf("%s: p99 of the others beside poison: got %v, want at most %v (1.5 x + 20 ms)", kind, p99(beside), limit)
	}
}

// finish wants each poison to have had its attempts, nothing behind it to be sent, and all others delivered.
func (a *among) finish() {
	a.tb.Helper()
	a.load.Stop()
	a.Eventually(time.Minute, func() string {
		if left := Ask[int](a.Bed, `SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM tailbox_parked) - 2 * $1::int`, len(a.ids)); left > 0 {
			return fmt.Sprintf("%d messages are not settled beside those of poisoned groups: %s", left, a.Unsettled())
		}
		return ""
	})
	a.relay.Stop()
	spent, err := Rows[int](a.context(), a.Bed, `SELECT attempts FROM tailbox_parked WHERE state = 'dead' ORDER BY message_id::bigint`)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, id := range a.heads {
		if spent[i] != poisonAttempts || a.asked[id] != poisonAttempts {
			a.tb.Errorf("message %d was sent %d times and has spent %d attempts, want %d", id, a.asked[id], spent[i], poisonAttempts)
		}
	}
	if len(a.asked) != len(a.heads) {
		a.tb.Errorf("%d messages of poisoned groups were sent, want %d: the first of each", len(a.asked), len(a.heads))
	}
	a.ledger.GiveUp(a.ids...)
	a.truth.CatchUp()
	a.ledger.Check(a.truth, true)
	a.ledger.Verdict(a.tb)
	a.tb.Logf("%d of %d others were delivered", a.ledger.Count(), a.truth.Count()-len(a.ids))
}
