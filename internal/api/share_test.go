package api

import (
	"testing"
	"time"
)

// One who asks now and then never waits. Those who ask without a pause get their share.
func TestShare(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s share
	ask := func(takes time.Duration) (waited time.Duration) {
		waited = s.wait(now)
		now = now.Add(waited + takes)
		s.took(takes, now)
		return waited
	}
	for range 100 {
		if w := ask(50 * time.Millisecond); w > 0 {
			t.Fatalf("a question now and then waits %v", w)
		}
		now = now.Add(time.Second)
	}
	begun, asked := now, time.Duration(0)
	for now.Sub(begun) < 10*time.Minute {
		if w := ask(10 * time.Millisecond); w > shareOf*10*time.Millisecond {
			t.Fatalf("a question waits %v", w)
		}
		asked += 10 * time.Millisecond
	}
	if most := 10*time.Minute/shareOf + burst + time.Second; asked > most || asked < most*9/10 {
		t.Errorf("they took %v of 10 minutes, want about %v", asked, most)
	}
	now = now.Add(time.Minute)
	if w := ask(time.Second); w > 0 {
		t.Errorf("after a minute a question waits %v", w)
	}
}

// What was taken is forgotten before others who ask would have no answer in time.
func TestShareIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s share
	for range 600 {
		now = now.Add(time.Second)
		s.took(900*time.Millisecond, now)
	}
	if w := s.wait(now); w > longestWait || w < longestWait*9/10 {
		t.Errorf("a question waits %v, want about %v", w, longestWait)
	}
	if w := s.wait(now.Add(10 * time.Second)); w > 0 {
		t.Errorf("ten seconds later a question waits %v", w)
	}
}
