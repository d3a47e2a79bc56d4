package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

// scripted is a source that does what a function says.
type scripted struct {
	source.Source
	run     func(ctx context.Context, emit source.Emit) error
	confirm func(source.Resume)
	connect func(context.Context) error
}

func (*scripted) Examine(context.Context, string, source.Resume) (*source.Examined, error) {
	return &source.Examined{SourceID: "s"}, nil
}

func (s *scripted) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	if s.connect != nil {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	start.Begun()
	return s.run(ctx, emit)
}

func (*scripted) Await(string) {}

func (s *scripted) Confirm(r source.Resume) {
	if s.confirm != nil {
		s.confirm(r)
	}
}

// answering is a sink that does what a function says.
type answering struct {
	deliver func(context.Context, []*sink.Delivery) []error
}

func (a answering) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	return a.deliver(ctx, ds)
}
func (answering) Limits() sink.Limits         { return sink.Limits{Batch: 1, Run: 1, Concurrency: 4} }
func (answering) Close(context.Context) error { return nil }

// relayOf is a relay of one sink whose store says yes.
func relayOf(t *testing.T, src source.Source, to sink.Sink) *relay.Relay {
	t.Helper()
	return relayWith(t, src, to, accepting{}, 0)
}

func relayWith(t *testing.T, src source.Source, to sink.Sink, store checkpoint.Store, reconcile time.Duration) *relay.Relay {
	t.Helper()
	return relayWithin(t, 8<<20, src, to, store, reconcile)
}

func relayWithin(t *testing.T, memory int64, src source.Source, to sink.Sink, store checkpoint.Store, reconcile time.Duration) *relay.Relay {
	t.Helper()
	return relayOther(t, src, to, store, func(c *relay.Config) { c.Memory, c.Reconcile = memory, reconcile })
}

// relayOther is a relay of one sink and two tables that are kept, with another configuration.
func relayOther(t *testing.T, src source.Source, to sink.Sink, store checkpoint.Store, change func(*relay.Config)) *relay.Relay {
	t.Helper()
	rt, err := router.New(router.Config{Sinks: []string{"out"}, Tables: []outbox.Table{{Schema: "public", Name: "outbox", Shape: "debezium"},
		{Schema: "public", Name: "kept", Shape: "debezium"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := relay.Config{Source: src, Router: rt, Sinks: map[string]sink.Sink{"out": to}, ShutdownTimeout: 10 * time.Second, Memory: 8 << 20,
		Kept: func(string) bool { return true },
		Open: func(context.Context) (checkpoint.Store, error) { return store, nil }}
	change(&c)
	r, err := relay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// messages is a batch of one transaction, with a group each.
func messages(n int) *source.Batch {
	b := &source.Batch{Resume: source.Resume(fmt.Sprint(n))}
	for i := range n {
		b.Messages = append(b.Messages, &outbox.Message{ID: fmt.Sprint(i), Table: "public.outbox", Topic: "order", Type: "T",
			Group: fmt.Sprint("order:", i), CommitTime: time.Now(), Position: outbox.Position{Log: 1, Commit: 1, N: uint32(i)}})
	}
	return b
}

var errOperator = fmt.Errorf("the table is gone: %w", source.ErrStop)

// Where nothing more can be read until an operator acts, a sink that never answers must not keep the relay from saying so.
func TestStuckEndsWhileASinkHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			return errors.Join(emit(ctx, messages(3)), errOperator)
		}}
		hanging := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
			<-ctx.Done()
			return []error{sink.Unreachable(ctx.Err())}
		}}
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- relayOf(t, src, hanging).Run(t.Context()) }()
		select {
		case err := <-ended:
			if !errors.Is(err, source.ErrStop) {
				t.Errorf("ended with %v, want %v", err, source.ErrStop)
			}
			t.Logf("ended after %s", time.Since(began))
		case <-time.After(time.Minute):
			t.Fatal("runs a minute after nothing could be read any more, at a shutdown_timeout of 10 s")
		}
	})
}

// A sink that is slow, but answers, is waited for: what was read is settled, however long it takes.
func TestStuckWaitsForASlowSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		var confirmed atomic.Bool
		src := &scripted{confirm: func(r source.Resume) { confirmed.Store(r == source.Resume(fmt.Sprint(n))) },
			run: func(ctx context.Context, emit source.Emit) error {
				return errors.Join(emit(ctx, messages(n)), errOperator)
			}}
		slow := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
			select {
			case <-ctx.Done():
				return []error{sink.Unreachable(ctx.Err())}
			case <-time.After(4 * time.Second):
				return nil
			}
		}}
		err := relayOf(t, src, slow).Run(t.Context())
		if !errors.Is(err, source.ErrStop) || !confirmed.Load() {
			t.Errorf("ended with %v, all confirmed: %t", err, confirmed.Load())
		}
	})
}

// Progress without messages is saved after 10 s, or as soon as 16 MiB of log have passed (R6).
func TestBareProgressIsSavedByVolume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		type saved struct {
			at    source.Resume
			after time.Duration
		}
		got := make(chan saved, 100)
		src := &scripted{confirm: func(r source.Resume) { got <- saved{r, time.Since(began)} },
			run: func(ctx context.Context, emit source.Emit) error {
				for _, b := range []*source.Batch{{Resume: "small", LogBytes: 1 << 20}, {Resume: "much", LogBytes: 16 << 20}, {Resume: "little", LogBytes: 1 << 20}} {
					if err := emit(ctx, b); err != nil {
						return err
					}
					<-time.After(time.Second)
				}
				<-ctx.Done()
				return nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- relayOf(t, src, answering{func(context.Context, []*sink.Delivery) []error { return nil }}).Run(ctx)
		}()
		if first := <-got; first.at != "much" || first.after > 2*time.Second {
			t.Errorf("saved %q first, after %s; want 16 MiB after 1 s", first.at, first.after)
		}
		if second := <-got; second.at != "little" || second.after < 10*time.Second {
			t.Errorf("saved %q then, after %s; want 1 MiB after 10 s", second.at, second.after)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Where nothing more can be read, observers are told so, and why, before everything that was read is settled.
func TestStuckIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			return errors.Join(emit(ctx, messages(3)), errOperator)
		}}
		to := answering{func(context.Context, []*sink.Delivery) []error {
			<-time.After(time.Second)
			return nil
		}}
		var states []string
		r := relayOther(t, src, to, accepting{}, func(c *relay.Config) {
			c.Events.State = func(state, why string) { states = append(states, state+" "+why) }
		})
		if err := r.Run(t.Context()); !errors.Is(err, source.ErrStop) {
			t.Errorf("the relay ended with %v", err)
		}
		want := []string{"connecting ", "tailing ", "stuck read the log: the table is gone", "stopped "}
		if !slices.EqualFunc(states, want, strings.HasPrefix) {
			t.Errorf("states %q, want %q", states, want)
		}
	})
}

// A relay that cannot read yet, since the slot is another reader's for one, does not say that it reads.
func TestConnectingIsNotTailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries, until := 0, time.Now().Add(time.Minute)
		src := emitting()
		src.connect = func(ctx context.Context) error {
			if tries++; tries > 3 {
				return nil
			}
			<-time.After(10 * time.Second)
			return errors.New("the slot is active")
		}
		var states []string
		r := relayOther(t, src, answering{}, accepting{}, func(c *relay.Config) {
			c.Events.State = func(state, why string) {
				states = append(states, state)
				if state == "tailing" || time.Now().After(until) {
					cancel()
				}
			}
		})
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []string{"connecting", "disconnected", "connecting", "disconnected", "connecting", "disconnected", "connecting", "tailing", "stopped"}
		if !slices.Equal(states, want) {
			t.Errorf("states %q, want %q", states, want)
		}
	})
}
