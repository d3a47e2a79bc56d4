package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Lost is a bed whose position in the log gets lost in some way. One application writes, so that the order of the ids is the
// order of the commits, and the truth is noted by hand: the log that would tell it goes away.
type Lost struct {
	*Bed
	Ledger   *Ledger
	Endpoint *Endpoint

	options Options
	truth   *Truth
	table   string
	keep    bool
	relay   *Relay
	ids     []int64 // all that were written
}

// NewLost makes a bed with a server of its own, writes to one table of it, and has its relay compare nothing with the log: what
// is found, the relay finds where it starts or reads. With keep rows stay, and nothing tells which were delivered.
func NewLost(b *Bed, o Options, table string, keep bool) *Lost {
	b.tb.Helper()
	l := &Lost{Bed: b, Ledger: NewLedger("hook"), table: table, keep: keep}
	l.truth = &Truth{bed: b, groups: map[string][]int64{}, messages: map[int64]committed{}, unplaced: true}
	l.Endpoint = NewEndpoint(b.tb, l.Ledger)
	o.Source, o.Top = []string{"reconcile: 0s"}, []string{retryFast}
	o.Sinks = []string{fmt.Sprintf("hook: {kind: http, url: %q, timeout: 2s}", l.Endpoint.URL(false))}
	if keep {
		o.Tables = "\n    - {name: " + table + ", shape: debezium, on_delivered: keep}\n"
	}
	l.options = o
	b.Configure(o)
	b.MustCommand("init")
	return l
}

// Write commits n transactions of a few rows, and returns their ids.
func (l *Lost) Write(n int) []int64 {
	l.tb.Helper()
	ctx, cancel := context.WithTimeout(l.context(), time.Minute)
	defer cancel()
	w, err := l.database.writer(ctx, "")
	if err != nil {
		l.tb.Fatal(err)
	}
	defer w.close()
	var all []int64
	for range n {
		ids, err := w.ids(ctx, 1+l.Rand.IntN(5))
		if err != nil {
			l.tb.Fatal(err)
		}
		rows, noted := make([]written, len(ids)), make([]row, len(ids))
		for i, id := range ids {
			key := fmt.Sprint(id % 7)
			rows[i] = written{id: id, key: key, group: "order:" + key, topic: "events",
				payload: fmt.Appendf(nil, `{"n": %d, "g": "order:%s"}`, id, key)}
			noted[i] = row{id: id, group: rows[i].group, n: int32(i)}
		}
		if err = w.begin(ctx, false); err == nil {
			if err = w.insert(ctx, l.table, rows); err == nil {
				err = w.commit(ctx)
			}
		}
		if err != nil {
			l.tb.Fatalf("write messages: %v", err)
		}
		l.truth.commit(uint64(ids[0]), noted)
		all = append(all, ids...)
	}
	l.ids = append(l.ids, all...)
	return all
}

// Run starts the relay.
func (l *Lost) Run() {
	l.tb.Helper()
	l.relay = l.Start(func(r io.Reader) { _, _ = io.Copy(io.Discard, r) })
}

// Halt stops it.
func (l *Lost) Halt() {
	l.tb.Helper()
	l.relay.Stop()
}

// AwaitDelivered waits until all messages have come.
func (l *Lost) AwaitDelivered(ids []int64) {
	l.tb.Helper()
	l.Eventually(time.Minute, func() string {
		missing := 0
		for _, id := range ids {
			if n, _ := l.Ledger.Times(id); n == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d of %d messages were not delivered\n%s", missing, len(ids), Tail(l.LogFile, 5))
		}
		return ""
	})
}

// Healed wants everything that was written to be delivered, in order, and where rows do not stay nothing to be pending.
func (l *Lost) Healed() {
	l.tb.Helper()
	l.AwaitDelivered(l.ids)
	if !l.keep {
		l.AwaitSettled(time.Minute)
	}
	l.Halt()
	l.Ledger.Check(l.truth, true)
	l.Ledger.Verdict(l.tb)
	l.tb.Log(l.Ledger)
}

// Refused wants the relay to end by itself, twice, and to name accept-gap; with that it goes on, and delivers what is written then.
func (l *Lost) Refused() {
	l.tb.Helper()
	for range 2 {
		r := l.Start(nil)
		if code := r.Wait(time.Minute); code != 3 {
			l.tb.Fatalf("tailbox run with a gap it cannot judge: exit code %d, want 3", code)
		}
		if text := Tail(l.LogFile, 3); !strings.Contains(text, "accept-gap") {
			l.tb.Fatalf("tailbox run with a gap it cannot judge: the error does not name accept-gap:\n%s", text)
		}
	}
	before := l.Ledger.Count()
	l.MustCommand("accept-gap", "--why", "the rows of the gap were sent by hand")
	l.Run()
	l.Eventually(time.Minute, func() string {
		if strings.Contains(l.MustCommand("status"), "not carried out yet") {
			return "the relay has no new position"
		}
		return ""
	})
	after := l.Write(10)
	l.AwaitDelivered(after)
	l.Halt()
	if got := l.Ledger.Count() - before; got != len(after) {
		l.tb.Errorf("messages delivered after the gap: got %d, want the %d that were written after it", got, len(after))
	}
}

// whileDown stops the server, does something to its data, and starts it again.
func (l *Lost) whileDown(stop func() error, do func() error) {
	l.tb.Helper()
	if err := errors.Join(stop(), do(), l.database.start()); err != nil {
		l.tb.Fatal(err)
	}
}

// copyTree copies a directory that a server does not use at the moment, with its owners.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}
