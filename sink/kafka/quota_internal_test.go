package kafka

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestQuotas: a broker rests for as long as it last asked for, and is forgotten afterwards.
func TestQuotas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := quotas{until: make(map[string]time.Time)}
		rests := func(address string, want time.Duration) {
			t.Helper()
			if got := q.rest(address); got != want {
				t.Errorf("%s rests for %v, want %v", address, got, want)
			}
		}
		rests("a:1", 0)
		if q.note("a:1", 0); q.count.Load() != 0 {
			t.Error("an answer without a throttle is remembered")
		}
		q.note("a:1", 61*time.Second)
		q.note("a:1", time.Second) // the answer to an earlier request, which comes later
		q.note("b:1", 24*time.Hour)
		rests("a:1", 61*time.Second)
		rests("b:1", mostThrottle)
		rests("c:1", 0)
		<-time.After(60 * time.Second)
		rests("a:1", time.Second)
		<-time.After(time.Second)
		rests("a:1", 0)
		for i := range 100 {
			q.note(fmt.Sprint("gone ", i), time.Second)
		}
		<-time.After(mostThrottle)
		rests("b:1", 0)
		if q.note("new", time.Second); len(q.until) != 1 || q.count.Load() != 1 {
			t.Errorf("%d brokers are remembered, want 1", len(q.until))
		}
		<-time.After(time.Second)
		if rests("new", 0); q.count.Load() != 0 {
			t.Error("a throttle that is over is remembered")
		}
	})
}
