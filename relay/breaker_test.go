package relay

import (
	"testing"
	"time"
)

func TestBreakerOpensAfterFailuresOnTwoLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a, b := &lane{}, &lane{}
	var br breaker
	for range 20 {
		if br.failed(now, a, true) {
			t.Fatal("opened by one lane though others are active")
		}
	}
	if !br.failed(now, b, true) {
		t.Fatal("did not open when a second lane failed too")
	}
	if ok, probe := br.allows(now); ok || !probe {
		t.Fatal("an open breaker allows deliveries before its probe")
	}
	if ok, probe := br.allows(now.Add(time.Second)); !ok || !probe {
		t.Fatal("no probe after a second")
	}
}

func TestBreakerSingleLane(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a := &lane{}
	var br breaker
	for i := range breakerOpens - 1 {
		if br.failed(now, a, false) {
			t.Fatalf("opened after %d failures", i+1)
		}
	}
	if !br.failed(now, a, false) {
		t.Fatal("did not open")
	}
	waits := []time.Duration{}
	for range 7 {
		br.failed(now, a, false)
		waits = append(waits, br.probe.Sub(now))
	}
	for i, want := range []time.Duration{2, 4, 8, 16, 30, 30, 30} {
		if waits[i] != want*time.Second {
			t.Errorf("probe %d after %v, want %v", i, waits[i], want*time.Second)
		}
	}
	if !br.answered() || br.open {
		t.Fatal("an answer does not close the breaker")
	}
	if br.answered() {
		t.Fatal("closed twice")
	}
}
