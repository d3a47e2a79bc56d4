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
	crashes := startUntil(t, b, &life, state, done, 30)
	if crashes < 6 {
		t.Errorf("given up after %d crashes, want three before the relay is cautious, and three that prove it", crashes)
	}
	t.Logf("%d crashes", crashes)
}

// startUntil starts relays, one after the other's end, until the state is done, and returns how many of them crashed.
func startUntil(t *testing.T, b *Bed, life *atomic.Pointer[Relay], state func() string, done string, most int) (crashes int) {
	t.Helper()
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
		} else if crashes++; crashes > most {
			t.Fatalf("after %d crashes: %s", crashes, state())
		}
	}
	return crashes
}

// TestParkedCrashIsolation has a message that ends the relay whenever it is sent, and that is parked behind another when its
// turn comes. The log has nothing more to read, so that only the poller has it in hand.
func TestParkedCrashIsolation(t *testing.T) {
	t.Parallel()
	endpoint := NewEndpoint(t, NewLedger("hook"))
	b := NewBed(t, Options{Top: []string{"on_exhausted: skip", "retry: {schedule: [3s]}"}, Sinks: []string{fmt.Sprintf(
		"hook: {kind: http, url: %q, format: single, timeout: 2s}", endpoint.URL(false))}})
	b.MustCommand("init")
	b.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT id, 'order', 'one', 'Placed', jsonb_build_object('n', id, 'g', 'order:one') FROM generate_series(1, 10) AS id`)
	const poison = 5
	var life atomic.Pointer[Relay]
	var refused atomic.Bool
	endpoint.Answer(func(q Request) Answer {
		for _, d := range q.Deliveries {
			switch {
			case d.ID == "1" && !refused.Swap(true):
				return Answer{Status: 500}
			case d.ID == fmt.Sprint(poison):
				life.Load().Signal(syscall.SIGKILL)
				return Answer{Drop: true, Hang: true}
			}
		}
		return Answer{}
	})
	const done = "1 dead, of 1 parked: crash"
	state := func() string {
		for id := range int64(10) {
			if n, _ := endpoint.Ledger.Times(id + 1); n == 0 && id+1 != poison {
				return fmt.Sprintf("message %d never came", id+1)
			}
		}
		return Ask[string](b, `SELECT format('%s dead, of %s parked: %s', count(*) FILTER (WHERE state = 'dead' AND message_id = $1), count(*),
			string_agg(error_class, ', ')) FROM tailbox_parked`, fmt.Sprint(poison))
	}
	crashes := startUntil(t, b, &life, state, done, 20)
	t.Logf("%d crashes", crashes)
}
