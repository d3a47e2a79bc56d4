//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// unnumbered is the last commit whose tailbox has tables without numbered migrations.
const unnumbered = "ed46ad31ceb98c0424fd2744ee5c520ef6543e81"

// olderBinary builds the tailbox of that commit. A checkout without its history cannot.
func olderBinary(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	tarball := filepath.Join(dir, "older.tar")
	if out, err := exec.Command("git", "-C", filepath.Join("..", ".."), "archive", "-o", tarball, unnumbered).CombinedOutput(); err != nil {
		tb.Skipf("the history of this checkout does not reach back to %s: %v\n%s", unnumbered, err, out)
	}
	binary := filepath.Join(dir, "tailbox-older")
	build := exec.Command("sh", "-c", "tar -xf older.tar && go build -o tailbox-older ./cmd/tailbox")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the tailbox of %s: %v\n%s", unnumbered, err, out)
	}
	return binary
}

// rolling is a pipeline whose relays are of two versions.
type rolling struct {
	*hook

	mu   sync.Mutex
	from map[string]int // requests by relay
	bad  bool           // groups that end with a 7 are refused
}

func (r *rolling) config(name string) string { return filepath.Join(r.Dir, name+".yaml") }

func (r *rolling) start(binary, name string) *Relay {
	r.tb.Helper()
	r.ConfigureAs(r.config(name), Options{Top: []string{"retry: {attempts: 1000, initial: 3s, factor: 1}"}, Sinks: []string{fmt.Sprintf(
		"hook: {kind: http, url: %q, timeout: 2s, headers: {x-relay: %s}}", r.endpoint.URL(false), name)}})
	return r.startBinary(binary, r.config(name), filepath.Join(r.Dir, name+".log"), nil)
}

// awaitWork waits until a relay has delivered more than before.
func (r *rolling) awaitWork(name string) {
	r.tb.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.from[name]
	}
	before := count()
	r.Eventually(time.Minute, func() string {
		if count() < before+20 {
			return "the relay " + name + " delivers nothing:\n" + Tail(filepath.Join(r.Dir, name+".log"), 5)
		}
		return ""
	})
}

func (r *rolling) awaitStandby(name string) {
	r.tb.Helper()
	r.Eventually(time.Minute, func() string {
		if !strings.Contains(Tail(filepath.Join(r.Dir, name+".log"), 5), "standing by") {
			return "the relay " + name + " does not stand by"
		}
		return ""
	})
}

// kill ends a relay as a crash does.
func (r *rolling) kill(relay *Relay) {
	r.tb.Helper()
	relay.Kill()
	pending, err := r.Pending(r.context())
	if err != nil {
		r.tb.Fatal(err)
	}
	r.ledger.Killed(pending)
}

// TestRollingUpgrade upgrades a pipeline that works, with parked deliveries, a held group, a crash and requests nobody has carried out: the
// migrations run beside the older relay, which goes on; then each version is the leader, with the other one as its standby, and takes over
// from it. Nothing is lost or overtaken, and nothing comes twice but for the crashes.
func TestRollingUpgrade(t *testing.T) {
	older := olderBinary(t)
	onKinds(t, func(t *testing.T, kind string) { testRolling(t, older, kind) })
}

func testRolling(t *testing.T, older, kind string) {
	r := &rolling{hook: newHook(t, Options{Kind: kind}, ""), from: map[string]int{}, bad: true}
	newer := Binary(t)
	r.endpoint.Answer(func(q Request) Answer {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.from[q.From]++
		if r.bad {
			for _, d := range q.Deliveries {
				if strings.HasSuffix(d.Group, "7") {
					return Answer{Status: 500, Drop: true}
				}
			}
		}
		return Answer{}
	})
	if res := r.commandOf(older, "init"); res.Code != 0 {
		t.Fatalf("init of the older version: %+v", res)
	}
	load := &Load{Rate: 300, Delivered: r.ledger.Count, MaxRows: 20, Groups: 100, Backlog: 1 << 30}
	load.Run(r.Bed)
	first := r.start(older, "first")
	r.awaitWork("first")
	if res := r.commandOf(older, "group", "hold", "1"); res.Code != 0 {
		t.Fatalf("hold: %+v", res)
	}
	r.kill(first)
	if res := r.commandOf(older, "group", "hold", "2", "--no-wait"); res.Code != 0 {
		t.Fatalf("hold: %+v", res)
	}
	// A newer relay wants the migrations first.
	early := r.start(newer, "early")
	if code := early.Wait(time.Minute); code != 3 || !strings.Contains(Tail(filepath.Join(r.Dir, "early.log"), 3), "run tailbox init") {
		t.Errorf("run on tables of the older version: exit code %d, want 3\n%s", code, Tail(filepath.Join(r.Dir, "early.log"), 3))
	}
	second := r.start(older, "second")
	r.awaitWork("second")
	if out := r.MustCommand("init"); !strings.Contains(out, "updated") {
		t.Errorf("init beside the older relay: %s", out)
	}
	r.awaitWork("second")

	third := r.start(newer, "third")
	r.awaitStandby("third")
	second.Stop()
	r.awaitWork("third")
	fourth := r.start(older, "fourth")
	r.awaitStandby("fourth")
	r.kill(third)
	r.awaitWork("fourth")
	fifth := r.start(newer, "fifth")
	r.awaitStandby("fifth")
	r.kill(fourth)
	r.awaitWork("fifth")

	load.Stop()
	r.mu.Lock()
	r.bad = false
	r.mu.Unlock()
	for _, group := range []string{"1", "2"} {
		r.MustCommand("group", "resume", group)
	}
	r.AwaitSettled(2 * time.Minute)
	r.ledger.AwaitAll(r.truth, time.Minute)
	fifth.Stop()
	r.truth.CatchUp()
	r.ledger.Check(r.truth, true)
	r.ledger.Verdict(t)
	t.Log(r.ledger)
}
