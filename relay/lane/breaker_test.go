package lane

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// fail counts a failed call that carried one lane.
func (b *Breaker) fail(now time.Time, l *Lane, others bool) bool {
	return b.Failed(now, l, false, others, sink.ClassUnavailable, "503")
}

func TestBreakerOpensAfterFailuresOnTwoLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a, b := &Lane{}, &Lane{}
	var br Breaker
	for range 20 {
		if br.fail(now, a, true) {
			t.Fatal("opened by one lane though others are active")
		}
	}
	if !br.fail(now, b, true) {
		t.Fatal("did not open when a second lane failed too")
	}
	if ok, probe := br.Allows(now); ok || !probe {
		t.Fatal("an open breaker allows deliveries before its probe")
	}
	if ok, probe := br.Allows(now.Add(time.Second)); !ok || !probe {
		t.Fatal("no probe after a second")
	}
}

// A call with several lanes is evidence of several lanes.
func TestBreakerCallOfSeveralLanes(t *testing.T) {
	t.Parallel()
	now, a := time.Unix(1000, 0), &Lane{}
	var br Breaker
	for range breakerCalls - 1 {
		br.fail(now, a, true)
	}
	if !br.Failed(now, a, true, true, sink.ClassRejected, "500") {
		t.Error("did not open though two lanes failed")
	}
}

// A single lane tries ever more seldom: if the answers speak of the destination, three calls over two seconds are enough.
func TestBreakerOfASlowLane(t *testing.T) {
	t.Parallel()
	now, a := time.Unix(1000, 0), &Lane{}
	for class, want := range map[sink.Class]int{sink.ClassUnavailable: 3, sink.ClassUnreachable: 3, sink.ClassRejected: 5, sink.ClassMisconfigured: 5} {
		for _, pause := range []time.Duration{breakerLong / 2, breakerLong/2 - 1} {
			var br Breaker
			calls := 1
			for ; !br.Failed(now.Add(time.Duration(calls-1)*pause), a, false, false, class, "no"); calls++ {
				if calls > 10 {
					t.Fatalf("%v: did not open", class)
				}
			}
			if pause < breakerLong/2 { // the third is too soon
				want = max(want, 4)
			}
			if calls != want {
				t.Errorf("%v, a call every %v: opened by call %d, want %d", class, pause, calls, want)
			}
		}
	}
	var br Breaker
	for i := range 20 {
		if br.fail(now.Add(time.Duration(i)*breakerLong), a, true) {
			t.Fatal("opened by one lane though others are active")
		}
	}
}

// A destination that delivered a moment ago does not fail as a whole, however many calls fail in a row.
func TestBreakerWantsASecondWithoutADelivery(t *testing.T) {
	t.Parallel()
	now, a, b := time.Unix(1000, 0), &Lane{}, &Lane{}
	br := Breaker{delivered: now}
	for i := range 100 {
		if at := now.Add(time.Duration(i) * breakerQuiet / 100); br.fail(at, a, true) || br.fail(at, b, true) {
			t.Fatalf("opened %v after a delivery", at.Sub(now))
		}
	}
	if !br.fail(now.Add(breakerQuiet), a, true) {
		t.Error("did not open a second after the last delivery")
	}
}

func TestBreakerRounds(t *testing.T) {
	t.Parallel()
	for class, want := range map[sink.Class][]time.Duration{
		sink.ClassUnavailable:   {1, 2, 4, 8, 15, 15, 15, 15},
		sink.ClassMisconfigured: {30, 30, 30},
	} {
		now := time.Unix(1000, 0)
		var br Breaker
		for i := range breakerCalls {
			if opened := br.Failed(now, &Lane{}, false, false, class, "no"); opened != (i == breakerCalls-1) {
				t.Fatalf("failure %d: opened %v", i+1, opened)
			}
		}
		for i, w := range want {
			if wait := br.Next.Sub(now); wait != w*time.Second {
				t.Errorf("%v: round %d after %v, want %v", class, i+1, wait, w*time.Second)
			}
			now = br.Next
			for probe := range ProbesPerRound {
				if ok, single := br.Allows(now); !ok || !single {
					t.Fatalf("round %d: probe %d is not allowed", i+1, probe+1)
				}
				br.Probed(now, 0)
				br.Failed(now, &Lane{}, false, false, class, "no")
			}
			if ok, _ := br.Allows(now); ok {
				t.Fatalf("round %d has more than %d probes", i+1, ProbesPerRound)
			}
		}
		if !br.Close() || br.Fails() || br.Close() {
			t.Error("it does not close, or closes twice")
		}
	}
}

// What is sent while a breaker is closed is no probe.
func TestBreakerClosedHasNoProbes(t *testing.T) {
	t.Parallel()
	var br Breaker
	br.Probed(time.Unix(1000, 0), 0)
	if br.Fails() {
		t.Error("a closed breaker was opened by a probe of another one")
	}
}

// Failures that were counted before a delivery count no more after it.
func TestBreakerForgetsFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var br Breaker
	for range 10 {
		for range breakerCalls - 1 {
			if br.fail(now, &Lane{}, false) {
				t.Fatal("opened though there was a delivery in between")
			}
		}
		br.Close()
	}
}

// In whatever order calls fail, probes are sent and messages arrive, a breaker is probing exactly while probes of its round are left, and
// closed after a delivery.
func TestBreakerStates(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	var b Breaker
	now, a := time.Unix(1000, 0), &Lane{}
	for i := range 100_000 {
		before := b.state
		now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		switch r.IntN(20) {
		case 0:
			b.Close()
			if b.Fails() {
				t.Fatalf("%v after it was closed in state %v", b.state, before)
			}
		case 1, 2, 3, 4, 5, 6, 7, 8:
			b.fail(now, a, false)
		default:
			if ok, _ := b.Allows(now); ok {
				b.Probed(now, int64(i))
			}
		}
		if (b.left > 0) != (b.state == breakerProbing) {
			t.Fatalf("%v with %d probes left", b.state, b.left)
		}
		seen[before.String()+" to "+b.state.String()] = true
	}
	if len(seen) != 8 { // three times three, without closed to probing
		t.Errorf("moves: %v", seen)
	}
}
