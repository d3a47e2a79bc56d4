//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair is two relays of one pipeline: one works, the other stands by.
type pair struct {
	*hook
	configs, logs [2]string

	mu   sync.Mutex
	from map[string][]Request // requests by relay
}

const concurrency = 8 // calls that one relay has in flight at most

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{hook: newHook(t, Options{}, ""), from: map[string][]Request{}}
	for i, name := range []string{"first", "second"} {
		p.configs[i] = filepath.Join(p.Dir, name+".yaml")
		p.logs[i] = filepath.Join(p.Dir, name+".log")
		p.ConfigureAs(p.configs[i], Options{Sinks: []string{fmt.Sprintf(
			"hook: {kind: http, url: %q, format: cloudevents, concurrency: %d, timeout: 2s, headers: {x-relay: %s}}",
			p.endpoint.URL(false), concurrency, name)}})
	}
	p.ConfigureAs(p.ConfigFile, Options{Sinks: []string{fmt.Sprintf("hook: {kind: http, url: %q}", p.endpoint.URL(false))}})
	p.endpoint.Answer(func(q Request) Answer {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.from[q.From] = append(p.from[q.From], q)
		return Answer{Delay: 5 * time.Millisecond}
	})
	// Each checkpoint is noted with the session that wrote it.
	p.Exec(`CREATE TABLE written (at timestamptz NOT NULL DEFAULT clock_timestamp(), pid int NOT NULL DEFAULT pg_backend_pid())`)
	p.MustCommand("init")
	p.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.written DEFAULT VALUES; RETURN NULL; END'`)
	p.Exec(`CREATE TRIGGER note AFTER INSERT OR UPDATE ON tailbox_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	return p
}

// requests is how many requests a relay has sent, and when the last came.
func (p *pair) requests(name string) (int, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rs := p.from[name]
	if len(rs) == 0 {
		return 0, time.Time{}
	}
	return len(rs), rs[len(rs)-1].At
}

func (p *pair) start(i int) *Relay {
	p.tb.Helper()
	return p.StartWith(p.configs[i], p.logs[i], nil)
}

// both starts the first relay, then the second once the first works.
func (p *pair) both() (first, second *Relay) {
	p.tb.Helper()
	first = p.start(0)
	p.Eventually(20*time.Second, func() string {
		if n, _ := p.requests("first"); n < 100 {
			return "the first relay does not work:\n" + Tail(p.logs[0], 5)
		}
		return ""
	})
	second = p.start(1)
	p.Eventually(20*time.Second, func() string {
		if !strings.Contains(Tail(p.logs[1], 5), "standing by") {
			return "the second relay does not stand by"
		}
		return ""
	})
	return first, second
}

// awaitTakeover waits until the second relay delivers, and returns how long that took.
func (p *pair) awaitTakeover(since time.Time, most time.Duration) time.Duration {
	p.tb.Helper()
	p.Eventually(most+30*time.Second, func() string {
		if n, _ := p.requests("second"); n == 0 {
			return "the second relay delivers nothing"
		}
		return ""
	})
	p.mu.Lock()
	took := p.from["second"][0].At.Sub(since)
	p.mu.Unlock()
	p.tb.Logf("takeover took %v", took.Round(time.Millisecond))
	if took > most {
		p.tb.Errorf("takeover: took %v, want at most %v", took, most)
	}
	return took
}

// TestTakeoverAfterKill kills the relay that works: the other one takes over within 5 s.
func TestTakeoverAfterKill(t *testing.T) {
	p := newPair(t)
	load := &Load{Rate: 1000, Delivered: p.ledger.Count}
	load.Run(p.Bed)
	first, second := p.both()
	at := time.Now()
	first.Kill()
	pending, err := p.Pending(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.ledger.Killed(pending)
	p.awaitTakeover(at, 5*time.Second)
	Pause(2 * time.Second)
	load.Stop()
	p.complete(second)
}

// TestTakeoverAfterFreeze freezes the relay that works: the other one takes over within 20 s. When the first thaws it
// writes nothing to the database, sends at most what it had begun, says why it left, and stands by.
func TestTakeoverAfterFreeze(t *testing.T) {
	p := newPair(t)
	load := &Load{Rate: 1000, Delivered: p.ledger.Count}
	load.Run(p.Bed)
	first, second := p.both()
	sessions := p.sessions()
	first.Signal(syscall.SIGSTOP)
	at := time.Now()
	// What it has begun may arrive in these moments, or when it thaws.
	pending, err := p.Pending(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.ledger.Killed(pending)
	p.awaitTakeover(at, 20*time.Second)
	Pause(3 * time.Second)
	before, _ := p.requests("first")
	duplicates := p.ledger.Stats.Duplicates
	thawed := Ask[time.Time](p.Bed, `SELECT clock_timestamp()`)
	first.Signal(syscall.SIGCONT)
	p.Eventually(30*time.Second, func() string {
		if text := Tail(p.logs[0], 10); !strings.Contains(text, "standing by") || !strings.Contains(text, "relay interrupted") {
			return "the first relay does not say why it left, or does not stand by:\n" + text
		}
		return ""
	})
	Pause(3 * time.Second)
	after, _ := p.requests("first")
	t.Logf("after it thawed the first relay sent %d requests; its log:\n%s", after-before, Tail(p.logs[0], 4))
	if after-before > concurrency {
		t.Errorf("requests of the first relay after it thawed: got %d, want at most the %d that it had begun", after-before, concurrency)
	}
	if n := Ask[int](p.Bed, `SELECT count(*) FROM written WHERE at > $1 AND pid = ANY($2)`, thawed, sessions); n > 0 {
		t.Errorf("checkpoints that the first relay wrote after it thawed: got %d, want none", n)
	}
	t.Logf("%d duplicates by the takeover, %d after the thaw", duplicates, p.ledger.Stats.Duplicates-duplicates)
	load.Stop()
	p.AwaitSettled(time.Minute)
	first.Stop()
	p.complete(second)
}

// sessions are the backends that wrote checkpoints so far.
func (p *pair) sessions() []int32 {
	p.tb.Helper()
	pids, err := Rows[int32](p.context(), p.Bed, `SELECT DISTINCT pid FROM written`)
	if err != nil {
		p.tb.Fatal(err)
	}
	return pids
}
