//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

const (
	outageGroups   = 50
	outageMessages = 400 // a second
	// outagesAtOnce of the kinds run at a time.
	outagesAtOnce = 5
)

// TestOutages has a destination fail for every message, in every way. No message dies or spends a second attempt, people hear of it soon, and
// once it is over everything comes, in order.
func TestOutages(t *testing.T) {
	atOnce(t, outagesAtOnce, outageKinds(), func(t *testing.T, k *outageKind) {
		o := newOutageOf(t, k, outageGroups, "")
		o.strike()
		if o.spent > 1 {
			t.Errorf("attempts that messages of one group have spent: got %d, want 1 at most", o.spent)
		}
		o.recover()
		if o.dead > 0 {
			t.Errorf("dead letters: got %d, want none", o.dead)
		}
		o.report()
	})
}

// TestOutageOfALoneGroup does the same with a single group. Nothing tells then whether the destination or the message is to blame, so that an
// answer that rejects the message is believed, once.
func TestOutageOfALoneGroup(t *testing.T) {
	atOnce(t, outagesAtOnce, outageKinds(), func(t *testing.T, k *outageKind) {
		o := newOutageOf(t, k, 1, "on_exhausted: skip")
		o.strike()
		if k.loneDead == 0 && o.spent > 1 {
			t.Errorf("attempts that messages have spent: got %d, want 1 at most", o.spent)
		}
		o.recover()
		if o.dead > k.loneDead {
			t.Errorf("dead letters: got %d, want %d at most", o.dead, k.loneDead)
		}
		o.report()
	})
}

// atOnce runs a subtest for each kind, several at a time: they wait for most of their time, and go test would run as many as there are
// processors.
func atOnce(t *testing.T, most int, kinds []outageKind, test func(*testing.T, *outageKind)) {
	t.Helper()
	places := make(chan struct{}, most)
	var running sync.WaitGroup
	for _, k := range kinds {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(k.name, func(t *testing.T) { test(t, &k) })
		})
	}
	running.Wait()
}

// outageOf is a relay whose only destination fails for a while.
type outageOf struct {
	*Bed
	*failing
	kind  *outageKind
	lasts time.Duration
	admin string
	truth *Truth
	load  *Load
	relay *Relay
	// What was seen: from the first failed answer to the warning and the state, counted attempts of a group, dead letters, and from the end of
	// the outage until all was delivered.
	warned, shown, drained time.Duration
	spent, dead            int
}

func newOutageOf(t *testing.T, k *outageKind, groups int, top string) *outageOf {
	t.Helper()
	o := &outageOf{kind: k, failing: k.open(t), lasts: period(t, "TAILBOX_E2E_OUTAGE", time.Minute), admin: servers.FreeAddr(t)}
	o.Bed = NewBed(t, Options{Topic: o.topic, Sinks: []string{"out: " + o.sink},
		Top: []string{"retry: {attempts: 4}", "admin: {listen: " + o.admin + "}", top}})
	o.MustCommand("init")
	o.truth = NewTruth(o.Bed)
	o.load = &Load{Rate: outageMessages, Rows: 4, Groups: groups, Tables: "outbox"}
	o.load.Run(o.Bed)
	o.relay = o.Start(nil)
	o.Eventually(30*time.Second, func() string {
		if got := o.ledger.Count(); got < 3*outageMessages {
			return fmt.Sprintf("%d messages were delivered before the outage, want %d", got, 3*outageMessages)
		}
		return ""
	})
	return o
}

// strike lets the destination fail, and wants people to hear of it.
func (o *outageOf) strike() {
	o.tb.Helper()
	over := time.After(o.lasts)
	o.begin()
	state := "failing"
	if o.kind.throttled {
		state = "throttled"
	}
	o.shown = o.since(func() bool { return o.stateIs(state) })
	limit := 10 * time.Second
	if o.kind.patient && o.load.Groups == 1 {
		limit = 20 * time.Second
	}
	if o.shown > limit {
		o.tb.Errorf("state %s: got it %v after the first failed answer, want %v at most", state, o.shown, limit)
	}
	for _, command := range [][]string{{"sink", "list"}, {"status"}} {
		if text := o.MustCommand(command...); !strings.Contains(text, state) && !o.kind.throttled {
			o.tb.Errorf("tailbox %v does not show that the sink is %s:\n%s", command, state, text)
		}
	}
	<-over
	if !o.kind.throttled {
		first, _ := o.seen()
		warned, ok := firstWarning(o.LogFile, "out")
		o.warned = warned.Sub(first)
		if limit := 5 * time.Second; !ok || o.warned > limit {
			o.tb.Errorf("warning in the log: got it %v after the first failed answer (%v), want %v at most", o.warned, ok, limit)
		}
		if !o.stateIs(state) {
			o.tb.Errorf("the sink is not %s at the end of the outage", state)
		}
	}
	o.spent, _ = o.spentAttempts("out")
}

// since waits until something holds, and returns how long that was after the first failed answer.
func (o *outageOf) since(holds func() bool) time.Duration {
	o.tb.Helper()
	o.Eventually(o.lasts, func() string {
		if !holds() {
			return "nobody hears of the outage"
		}
		return ""
	})
	first, _ := o.seen()
	return max(0, time.Since(first))
}

func (o *outageOf) stateIs(state string) bool {
	values, err := Metrics(o.admin)
	return err == nil && values[fmt.Sprintf("tailbox_sink_state{sink=%q,state=%q}", "out", state)] == 1
}

// recover ends the outage, and wants everything delivered in order but what is dead.
func (o *outageOf) recover() {
	o.tb.Helper()
	o.restore()
	began := time.Now()
	o.load.Stop()
	const most = time.Minute
	missing := within(2*most, func() string {
		left, err := TryAsk[int](o.Bed, `SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM tailbox_parked WHERE state <> 'dead')
			- (SELECT count(*) FROM outbox JOIN tailbox_parked ON message_id = id::text WHERE state = 'dead')`)
		if left > 0 || err != nil {
			return fmt.Sprintf("%d messages are not settled (%v): %s", left, err, o.Unsettled())
		}
		return ""
	})
	o.drained = time.Since(began)
	if o.drained > most {
		o.tb.Errorf("delivery of all after the outage: took %v, want %v at most; %s", o.drained, most, missing)
	}
	dead, err := Rows[int64](o.context(), o.Bed, `SELECT message_id::bigint FROM tailbox_parked WHERE state = 'dead'`)
	if err != nil {
		o.tb.Fatal(err)
	}
	o.dead = len(dead)
	o.ledger.GiveUp(dead...)
	o.relay.Stop()
	o.catchUp()
	o.truth.CatchUp()
	o.ledger.Check(o.truth, true)
	o.ledger.Verdict(o.tb)
}

// report logs what was measured.
func (o *outageOf) report() {
	o.tb.Helper()
	_, tries := o.seen()
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	o.tb.Logf("%v of it: %d dead; at most %d attempts spent in a group, header tailbox-attempt %d; warning after %v, state after %v, all delivered %v after its end; %s",
		o.lasts, o.dead, o.spent, tries, round(o.warned), round(o.shown), round(o.drained), o.ledger)
}

// firstWarning returns when a relay first warned of a sink.
func firstWarning(log, sink string) (at time.Time, ok bool) {
	file, err := os.Open(log)
	if err != nil {
		return at, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text := lines.Text()
		if !strings.Contains(text, " level=WARN ") || !strings.Contains(text, " sink="+sink+" ") {
			continue
		}
		stamp, _, _ := strings.Cut(strings.TrimPrefix(text, "time="), " ")
		at, err := time.Parse(time.RFC3339, stamp)
		return at, err == nil
	}
	return at, false
}
