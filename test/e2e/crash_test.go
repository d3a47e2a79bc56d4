package e2e

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestCrashIsolation has a message that ends the relay whenever it is sent. It becomes a dead letter after some crashes, and
// everything else is delivered.
func TestCrashIsolation(t *testing.T) {
	t.Parallel()
	endpoint := NewEndpoint(t, NewLedger("hook"))
	b := NewBed(t, Options{Top: []string{"on_exhausted: skip"}, Sinks: []string{fmt.Sprintf(
		"hook: {kind: http, url: %q, format: single, timeout: 2s}", endpoint.URL(false))}})
	b.MustCommand("init")
	b.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT id, 'order', id % 3, 'Placed', jsonb_build_object('n', id, 'g', 'order:' || id % 3) FROM generate_series(1, 60) AS id`)
	const poison = 20
	var life atomic.Pointer[Relay]
	endpoint.Answer(func(q Request) Answer {
		for _, d := range q.Deliveries {
			if d.ID == fmt.Sprint(poison) {
				life.Load().Signal(syscall.SIGKILL)
				return Answer{Drop: true, Hang: true}
			}
		}
		return Answer{}
	})
	const done = "all others came, one is dead: crash"
	state := func() string {
		for id := range int64(60) {
			if n, _ := endpoint.Ledger.Times(id + 1); n == 0 && id+1 != poison {
				return fmt.Sprintf("message %d never came", id+1)
			}
		}
		return "all others came, one is dead: " + Ask[string](b, `SELECT coalesce(string_agg(error_class, ', '), 'none') FROM tailbox_parked
			WHERE state = 'dead' AND message_id = $1`, fmt.Sprint(poison))
	}
	crashes := 0
	for state() != done {
		r := b.Start(nil)
		life.Store(r)
		b.Eventually(time.Minute, func() string {
			if now := state(); r.Running() && now != done {
				return now
			}
			return ""
		})
		if r.Running() {
			r.Stop()
		} else if crashes++; crashes > 30 {
			t.Fatalf("after %d crashes: %s", crashes, state())
		}
	}
	if crashes < 6 {
		t.Errorf("given up after %d crashes, want three before the relay is cautious, and three that prove it", crashes)
	}
	t.Logf("%d crashes", crashes)
}
