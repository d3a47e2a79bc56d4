//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// period is a duration that the environment may set.
func period(t *testing.T, name string, byDefault time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// stopwatch measures from a row's insert to its arrival, at an endpoint that keeps everything.
type stopwatch struct {
	mu   sync.Mutex
	laps []time.Duration
}

func (s *stopwatch) answer(q Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range q.Deliveries {
		var body Body
		if json.Unmarshal(d.Payload, &body) == nil { // the ledger complains about others
			s.laps = append(s.laps, q.At.Sub(time.Unix(0, body.T)))
		}
	}
	return Answer{}
}

// take returns what was measured since the last time.
func (s *stopwatch) take() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	laps := s.laps
	s.laps = nil
	return laps
}

// twoSinks is a relay with two endpoints that both get everything.
type twoSinks struct {
	*Bed
	good, bad *Endpoint
	watch     stopwatch
	truth     *Truth
	load      *Load
	relay     *Relay
	admin     string
}

const outageRate = 2000 // messages a second

func newTwoSinks(t *testing.T) *twoSinks {
	t.Helper()
	s := &twoSinks{admin: servers.FreeAddr(t)}
	s.good, s.bad = NewEndpoint(t, NewLedger("good")), NewEndpoint(t, NewLedger("bad"))
	s.good.Answer(s.watch.answer)
	s.Bed = NewBed(t, Options{
		Top: []string{"memory: 32MiB", "admin: {listen: " + s.admin + "}", "routes: [{to: [good, bad]}]"},
		Sinks: []string{
			fmt.Sprintf("good: {kind: http, url: %q, format: cloudevents-batch}", s.good.URL(false)),
			fmt.Sprintf("bad: {kind: http, url: %q, format: cloudevents-batch}", s.bad.URL(false)),
		}})
	s.MustCommand("init")
	s.truth = NewTruth(s.Bed)
	s.load = &Load{Rate: outageRate, Rows: 10, Delivered: s.good.Ledger.Count}
	s.load.Run(s.Bed)
	s.relay = s.Start(nil)
	s.Eventually(20*time.Second, func() string {
		if s.good.Ledger.Count() < outageRate || s.bad.Ledger.Count() < outageRate {
			return "the relay has not found its pace"
		}
		return ""
	})
	return s
}

// tails returns the p99 of each tenth of what was measured. What a sink's outage costs shows in all of them; what else the machine
// does for a while, in some.
func tails(laps []time.Duration) []time.Duration {
	var p99 []time.Duration
	for i := range 10 {
		p99 = append(p99, Quantile(slices.Clone(laps[i*len(laps)/10:(i+1)*len(laps)/10]), 0.99))
	}
	return p99
}

// finish wants everything delivered at both sinks, in order.
func (s *twoSinks) finish(t *testing.T, most time.Duration) {
	t.Helper()
	s.load.Stop()
	began := time.Now()
	s.AwaitSettled(most)
	t.Logf("settled %v after the load ended", time.Since(began).Round(time.Millisecond))
	s.relay.Stop()
	s.truth.CatchUp()
	for _, e := range []*Endpoint{s.good, s.bad} {
		e.Ledger.Check(s.truth, true)
		e.Ledger.Verdict(t)
		t.Log(e.Ledger)
	}
}

// TestOutage takes one of two sinks away under load: the other one does not feel it, no group spends more than one attempt,
// memory stays within its bound, the log is released, and afterwards the sink gets everything in order.
func TestOutage(t *testing.T) {
	lasts := period(t, "TAILBOX_E2E_OUTAGE", 2*time.Minute)
	s := newTwoSinks(t)
	s.watch.take()
	Pause(lasts)
	calm := s.watch.take()
	s.bad.Down()
	began := time.Now()
	var memory, rss, held float64
	for time.Since(began) < lasts {
		Pause(time.Second)
		values, err := Metrics(s.admin)
		if err != nil {
			t.Fatal(err)
		}
		memory = max(memory, values["tailbox_memory_bytes"]/values["tailbox_memory_limit_bytes"])
		usage, err := s.relay.Usage()
		if err != nil {
			t.Fatal(err)
		}
		rss = max(rss, float64(usage.RSS))
		held = max(held, float64(s.HeldWAL()))
	}
	during := s.watch.take()
	s.wantFewAttempts(t)
	s.bad.Up()
	before, meanwhile := tails(calm), tails(during)
	t.Logf("the other sink: p50 %v before, %v during the outage of %v; p99 of each tenth before %v, during %v",
		Quantile(calm, 0.5), Quantile(during, 0.5), lasts, before, meanwhile)
	t.Logf("at most: %.0f%% of the memory bound of 32 MiB, RSS %.1f MiB, %.1f MiB of log held", 100*memory, rss/(1<<20), held/(1<<20))
	if limit := Quantile(before, 0.5)*3/2 + 20*time.Millisecond; Quantile(meanwhile, 0.5) > limit {
		t.Errorf("p99 of the other sink: got %v, want at most %v (1.5 x + 20 ms)", Quantile(meanwhile, 0.5), limit)
	}
	if memory > 1 {
		t.Errorf("memory: got %.0f%% of its bound", 100*memory)
	}
	if held > 32<<20 {
		t.Errorf("log held by the slot: got %.1f MiB at most, want it released while the outage lasts", held/(1<<20))
	}
	s.finish(t, 2*time.Minute+lasts)
}

// wantFewAttempts wants no group to have spent more than one attempt, after the sink's messages were parked.
func (s *twoSinks) wantFewAttempts(t *testing.T) {
	t.Helper()
	most, all := s.spentAttempts("bad")
	t.Logf("%d attempts were spent, at most %d in a group", all, most)
	if most > 1 {
		t.Errorf("attempts that messages of one group have spent: got %d, want 1 at most", most)
	}
}

// spentAttempts returns how many attempts parked messages have spent at a sink: the most of a group, and all.
func (b *Bed) spentAttempts(sink string) (most, all int) {
	b.tb.Helper()
	groups, err := Rows[int](b.context(), b, `SELECT sum(attempts) FROM tailbox_parked WHERE sink = $1
		GROUP BY coalesce(nullif(message_group, ''), message_id)`, sink)
	if err != nil {
		b.tb.Fatal(err)
	}
	for _, n := range groups {
		most, all = max(most, n), all+n
	}
	return most, all
}

// TestUnauthorized has one of two endpoints answer 401: the sink fails, and is probed seldom; no group spends more than one attempt, no
// message dies, and once it is fixed everything comes in order.
func TestUnauthorized(t *testing.T) {
	s := newTwoSinks(t)
	s.bad.Answer(func(Request) Answer { return Answer{Status: 401, Drop: true} })
	s.Eventually(10*time.Second, func() string {
		values, err := Metrics(s.admin)
		if err != nil || values[`tailbox_sink_state{sink="bad",state="failing"}`] != 1 {
			return fmt.Sprintf("the sink does not fail (%v)", err)
		}
		return ""
	})
	before := s.bad.Requests()
	Pause(40 * time.Second)
	if asked := s.bad.Requests() - before; asked < 1 || asked > 2*8 {
		t.Errorf("requests in 40 s: got %d, want a round of 8 probes at most every 30 s", asked)
	}
	s.wantFewAttempts(t)
	s.bad.Answer(nil)
	s.finish(t, 2*time.Minute)
}
