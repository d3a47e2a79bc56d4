package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, ", ")
}

// kept is a store that keeps the checkpoint, and notes its sessions.
type kept struct {
	accepting
	j      *journal
	saved  checkpoint.Checkpoint
	parked []string
}

func (k *kept) Load(context.Context) (*checkpoint.Loaded, error) {
	k.j.add("load")
	cp := k.saved
	return &checkpoint.Loaded{Checkpoint: &cp, ParkedSinks: k.parked}, nil
}

func (k *kept) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	cp := s.Checkpoint(nil)
	if cp != nil {
		k.saved = *cp
	}
	return &checkpoint.Settled{Saved: cp != nil}, nil
}

func (k *kept) Save(_ context.Context, cp *checkpoint.Checkpoint) error {
	k.saved = *cp
	return nil
}

func (k *kept) Close(context.Context) error {
	k.j.add("close the session")
	return nil
}

// logOf is a source with n transactions of a message each, all of one group. It reads on from the checkpoint.
type logOf struct {
	scripted
	n int
}

func (l *logOf) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	start.Begun()
	var from int
	if _, err := fmt.Sscan(string(start.From), &from); err != nil {
		return err
	}
	for i := from + 1; i <= l.n; i++ {
		b := &source.Batch{Resume: source.Resume(fmt.Sprint(i)), Messages: []*outbox.Message{{ID: fmt.Sprint(i), Table: "public.outbox", Topic: "order",
			Type: "T", Group: "order:1", CommitTime: time.Now(), Position: outbox.Position{Log: 1, Commit: uint64(i)}}}}
		if err := emit(ctx, b); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// journaled is a sink that notes what it gets. It answers a call when gate lets it.
func journaled(j *journal, name string, gate <-chan struct{}) sink.Sink {
	return answering{func(ctx context.Context, ds []*sink.Delivery) []error {
		j.add("%s gets %s", name, ds[0].Message.ID)
		select {
		case <-gate:
		case <-ctx.Done():
			return []error{sink.Unavailable(ctx.Err())}
		}
		j.add("%s took %s", name, ds[0].Message.ID)
		return nil
	}}
}

// changeTo makes everything go to one other sink.
func changeTo(t *testing.T, j *journal, name string, to sink.Sink) relay.Change {
	t.Helper()
	rt, err := router.New(router.Config{Sinks: []string{name}, Tables: []outbox.Table{{Schema: "public", Name: "outbox", Shape: "debezium"}}})
	if err != nil {
		t.Fatal(err)
	}
	return relay.Change{Sinks: map[string]sink.Sink{name: to}, Router: rt, Release: func(context.Context) { j.add("release") }}
}

// reloading starts a relay whose first call is under way, and hands it a change.
type reloading struct {
	j      journal
	store  *kept
	relay  *relay.Relay
	gate   chan struct{}
	answer chan error
	end    func()
}

func startReloading(t *testing.T, parked []string, change func(r *reloading) relay.Change) *reloading {
	t.Helper()
	r := &reloading{gate: make(chan struct{}), answer: make(chan error, 1)}
	r.store = &kept{j: &r.j, saved: checkpoint.Checkpoint{SourceID: "s", Resume: "0", Log: 1}, parked: parked}
	r.relay = relayOther(t, &logOf{n: 3}, journaled(&r.j, "old", r.gate), r.store, func(c *relay.Config) {
		c.Open = func(context.Context) (checkpoint.Store, error) {
			r.j.add("open the session")
			return r.store, nil
		}
	})
	r.end = started(t, r.relay)
	synctest.Wait()
	go func() { r.answer <- r.relay.Reload(t.Context(), change(r)) }()
	synctest.Wait()
	return r
}

func opened() chan struct{} {
	gate := make(chan struct{})
	close(gate)
	return gate
}

// A reload lets what is in flight end, and sends the rest to the new sinks, in the same session.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, nil, func(r *reloading) relay.Change { return changeTo(t, &r.j, "new", journaled(&r.j, "new", opened())) })
		close(r.gate)
		if err := <-r.answer; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.end()
		if got, want := r.j.text(), "open the session, load, old gets 1, old took 1, load, release, new gets 2, new took 2, new gets 3, new took 3, close the session"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if r.store.saved.Resume != "3" {
			t.Errorf("the checkpoint is %q", r.store.saved.Resume)
		}
	})
}

// A call that does not end is cut off after shutdown_timeout. What it had is delivered by the new configuration.
func TestReloadCutsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, nil, func(r *reloading) relay.Change { return changeTo(t, &r.j, "new", journaled(&r.j, "new", opened())) })
		began := time.Now()
		if err := <-r.answer; err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		synctest.Wait()
		r.end()
		if got, want := r.j.text(), "old gets 1, load, release, new gets 1, new took 1, new gets 2, new took 2, new gets 3"; !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A sink with parked deliveries cannot be left out: all stays as it was.
func TestReloadLeavesNothingParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, []string{"out"}, func(r *reloading) relay.Change { return changeTo(t, &r.j, "new", journaled(&r.j, "new", opened())) })
		close(r.gate)
		if err := <-r.answer; err == nil || !strings.Contains(err.Error(), `parked for sinks ["out"]`) || errors.Is(err, source.ErrStop) {
			t.Error(err)
		}
		synctest.Wait()
		r.end()
		if got, want := r.j.text(), "old took 1, load, old gets 2, old took 2, old gets 3, old took 3, close the session"; !strings.HasSuffix(got, want) ||
			strings.Contains(got, "release") || strings.Count(got, "open") != 1 {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A relay that is told to stop during a reload stops, and says that the change is not in force.
func TestReloadMeetsTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, nil, func(r *reloading) relay.Change { return changeTo(t, &r.j, "new", journaled(&r.j, "new", opened())) })
		go func() {
			synctest.Wait()
			close(r.gate)
		}()
		r.end()
		if err := <-r.answer; !errors.Is(err, relay.ErrStopped) {
			t.Error(err)
		}
		if err := r.relay.Reload(t.Context(), changeTo(t, &r.j, "new", journaled(&r.j, "new", nil))); !errors.Is(err, relay.ErrStopped) {
			t.Error(err)
		}
		if got := r.j.text(); strings.Contains(got, "new") || strings.Contains(got, "release") {
			t.Error(got)
		}
	})
}

// A standby takes a change at once. One that has lost its session takes it when it has the lock again.
func TestReloadBetweenTerms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails  error
		parked []string
		want   string
	}{
		"standby":                    {checkpoint.ErrLocked, nil, "release, load, new gets 1"},
		"standby, parked meanwhile":  {checkpoint.ErrLocked, []string{"out"}, "release, load"},
		"disconnected":               {errors.New("connection refused"), nil, "load, release, new gets 1"},
		"disconnected, not possible": {errors.New("connection refused"), []string{"out"}, "load, old gets 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				store := &kept{j: j, saved: checkpoint.Checkpoint{SourceID: "s", Resume: "0", Log: 1}, parked: test.parked}
				fails := true
				var mu sync.Mutex
				r := relayOther(t, &logOf{n: 1}, journaled(j, "old", opened()), store, func(c *relay.Config) {
					c.Open = func(context.Context) (checkpoint.Store, error) {
						mu.Lock()
						defer mu.Unlock()
						if fails {
							return nil, test.fails
						}
						return store, nil
					}
				})
				ended := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { ended <- r.Run(ctx) }()
				synctest.Wait()
				answer := make(chan error, 1)
				go func() { answer <- r.Reload(t.Context(), changeTo(t, j, "new", journaled(j, "new", opened()))) }()
				<-time.After(time.Minute)
				mu.Lock()
				fails = false
				mu.Unlock()
				<-time.After(time.Minute)
				refused := !strings.Contains(test.want, "release")
				if err := <-answer; (err != nil) != refused {
					t.Error(err)
				}
				cancel()
				err := <-ended
				if stops := strings.HasSuffix(test.want, "release, load"); errors.Is(err, source.ErrStop) != stops {
					t.Error(err)
				}
				if got := j.text(); !strings.HasPrefix(got, test.want) {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			})
		})
	}
}

// A change without sinks is refused before anything stops; one that nobody takes is given up.
func TestReloadRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relayOf(t, emitting(nil), answering{})
		if err := r.Reload(t.Context(), relay.Change{}); err == nil || !strings.Contains(err.Error(), "no sinks") {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Reload(ctx, changeTo(t, &journal{}, "new", answering{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
