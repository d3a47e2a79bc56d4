package e2e

import (
	"context"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// retryFast keeps trials short: what fails is tried again soon, and never given up.
const retryFast = "retry: {attempts: 1000000, initial: 50ms, factor: 3, max: 3s}"

// Trials kill the relay again and again under one long load, and look after each kill at all that came so far.
type Trials struct {
	Bed    *Bed
	Truth  *Truth
	Ledger *Ledger
	// Stdout reads a relay's standard output; nil if nothing is on it.
	Stdout func(io.Reader)
	// Before, if not nil, is called before each start.
	Before func(trial int)
	// Drained, if not nil, returns once everything that a dead relay sent is in the ledger.
	Drained func()
	// MinLife and MaxLife bound how long a relay runs. Defaults 0.2 s and 2 s.
	MinLife, MaxLife time.Duration
}

// Kill runs n trials: start, let it work for a random time, kill -9, look.
func (t *Trials) Kill(n int) {
	t.Bed.tb.Helper()
	fruitless := 0 // lives in a row
	for trial := range n {
		if t.Before != nil {
			t.Before(trial)
		}
		before := t.Ledger.Count()
		r := t.Bed.Start(t.Stdout)
		Pause(t.life())
		if fruitless == fruitlessMost {
			t.outlive(r, before)
		}
		if !r.Running() {
			t.Bed.tb.Fatalf("trial %d: the relay ended by itself with exit code %d", trial, r.Wait(time.Second))
		}
		r.Kill()
		t.look(trial)
		if fruitless++; t.Ledger.Count() > before || fruitless > fruitlessMost {
			fruitless = 0
		}
	}
}

// A message that relay after relay has in hand when it ends is poison to them (R9), and on a busy machine the trials' lives can be too
// short for anything else: after so many that brought nothing, the next one lasts longer.
const (
	fruitlessMost = 2
	outliving     = 20 * time.Second // more than a message is under suspicion, and sinks need to connect
)

// outlive waits until a relay has brought something, or cleared what it has in hand of suspicion.
func (t *Trials) outlive(r *Relay, before int) {
	for until := time.Now().Add(outliving); t.Ledger.Count() == before && r.Running() && time.Now().Before(until); {
		Pause(50 * time.Millisecond)
	}
}

// KillServer runs n trials with one relay: the server is killed under it and comes back. While the database is
// looked at the relay is frozen, for it may settle anything as soon as the server is back.
func (t *Trials) KillServer(n int) {
	t.Bed.tb.Helper()
	r := t.Bed.Start(t.Stdout)
	var starts, resumes time.Duration // of the slowest trial
	for trial := range n {
		Pause(t.life())
		if err := t.Bed.database.kill(); err != nil {
			t.Bed.tb.Fatal(err)
		}
		Pause(time.Duration(t.Bed.Rand.IntN(1000)) * time.Millisecond)
		r.Signal(syscall.SIGSTOP)
		began := time.Now()
		if err := t.Bed.database.start(); err != nil {
			t.Bed.tb.Fatal(err)
		}
		starts = max(starts, time.Since(began))
		t.look(trial)
		before := t.Ledger.Deliveries()
		r.Signal(syscall.SIGCONT)
		began = time.Now()
		t.Bed.Eventually(30*time.Second, func() string {
			if t.Ledger.Deliveries() == before && r.Running() {
				return "the relay delivers nothing since the server is back"
			}
			return ""
		})
		if t.Bed.Kind == "postgres" {
			t.Bed.AwaitReading()
		}
		resumes = max(resumes, time.Since(began))
		if !r.Running() {
			t.Bed.tb.Fatalf("trial %d: the relay ended by itself with exit code %d", trial, r.Wait(time.Second))
		}
	}
	r.Stop()
	t.Bed.tb.Logf("the server was back %v after a start at most, and the relay delivered %v after that at most", starts.Round(time.Millisecond),
		resumes.Round(time.Millisecond))
}

func (t *Trials) life() time.Duration {
	low, high := t.MinLife, t.MaxLife
	if low == 0 {
		low = 200 * time.Millisecond
	}
	if high == 0 {
		high = 2 * time.Second
		if t.Bed.Kind == "mongodb" { // a change stream takes longer to open
			high = 3 * time.Second
		}
	}
	return low + time.Duration(t.Bed.Rand.Int64N(int64(high-low)))
}

// look takes note of what is unsettled after a kill, and checks everything so far.
func (t *Trials) look(trial int) {
	t.Bed.tb.Helper()
	if t.Drained != nil {
		t.Drained()
	}
	pending, err := t.Bed.Pending(context.Background())
	if err != nil {
		t.Bed.tb.Fatal(err)
	}
	if early := t.Bed.ConfirmedEarly(); early != "" {
		t.Bed.tb.Fatalf("trial %d: %s", trial, early)
	}
	t.Ledger.Killed(pending)
	t.Truth.CatchUp()
	t.Ledger.Check(t.Truth, false)
	if t.Ledger.Broken() {
		t.Ledger.Verdict(t.Bed.tb)
		t.Bed.tb.Fatalf("stopped after trial %d", trial)
	}
}

// Finish ends the trials: with the load over and all faults gone, one more relay settles everything, stops softly, and
// everything is checked.
func (t *Trials) Finish(most time.Duration) {
	t.Bed.tb.Helper()
	r := t.Bed.Start(t.Stdout)
	began := time.Now()
	t.Bed.AwaitSettled(most)
	took := time.Since(began)
	if t.Drained == nil {
		t.Ledger.AwaitAll(t.Truth, most)
	}
	r.Stop()
	if t.Drained != nil {
		t.Drained()
	}
	t.Truth.CatchUp()
	t.Ledger.Check(t.Truth, true)
	t.Ledger.Verdict(t.Bed.tb)
	t.Bed.tb.Logf("%s; settled %v after the load ended; %d transactions, %d committed out of the order of their ids",
		t.Ledger, took.Round(time.Millisecond), t.Truth.txns, t.Truth.reordered)
}

// AwaitSettled waits until the database shows everything as settled.
func (b *Bed) AwaitSettled(most time.Duration) {
	b.tb.Helper()
	b.Eventually(most, b.Unsettled)
}

// trials is how many trials the environment asks for.
func trials(tb testing.TB, byDefault int) int {
	tb.Helper()
	text := os.Getenv("TAILBOX_E2E_TRIALS")
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("TAILBOX_E2E_TRIALS: %v", err)
	}
	return n
}
