package relay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// altered is a source whose sweep holds up an ALTER TABLE, and a store whose settlements wait for that statement.
type altered struct {
	*scripted
	accepting
	closed *atomic.Int32 // how many sweeps have ended
	gone   *atomic.Bool  // the one who waited has given up
	// large: the first sweep goes on all the time, and its rows come one by one.
	large bool
}

func (a altered) Establish(context.Context) (source.Snapshot, error) {
	return alteredSnapshot{of: a}, nil
}

func (a altered) Load(context.Context) (*checkpoint.Loaded, error) {
	return &checkpoint.Loaded{SourceID: "s"}, nil
}

func (a altered) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if len(s.Rows) == 0 || a.closed.Load() > 0 || a.gone.Load() {
		return &checkpoint.Settled{Saved: s.Checkpoint(nil) != nil}, nil
	}
	out := &checkpoint.Settled{Awaited: true}
	for i := range s.Rows {
		out.Invisible = append(out.Invisible, i)
	}
	s.Checkpoint(out.Invisible)
	return out, nil
}

type alteredSnapshot struct {
	source.Snapshot
	of altered
}

func (alteredSnapshot) Resume() source.Resume                             { return "1" }
func (alteredSnapshot) Judge(context.Context, source.Known) (bool, error) { return true, nil }
func (s alteredSnapshot) Pending(ctx context.Context, _ uint32, emit source.Emit) error {
	err := emit(ctx, messages(3))
	for s.of.large && s.of.closed.Load() == 0 && err == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(60 * time.Millisecond):
			err = emit(ctx, messages(1))
		}
	}
	return err
}

func (s alteredSnapshot) Close(context.Context) error {
	s.of.closed.Add(1)
	return nil
}

// What is settled beside the rows that wait, between two tries of theirs, does not make it forget since when they do.
func TestLargeSweepMakesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := altered{closed: new(atomic.Int32), gone: new(atomic.Bool), large: true}
		tailing := make(chan struct{})
		a.scripted = &scripted{run: func(ctx context.Context, _ source.Emit) error {
			close(tailing)
			<-ctx.Done()
			return nil
		}}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error { return nil }}
		r := relayOther(t, a, to, a, func(c *relay.Config) { c.Kept = func(string) bool { return false } })
		runUntil(t, r, tailing, 10*time.Second, "the tail begins")
	})
}

// A sweep makes way for who waits for it while its own rows wait behind them, and begins again; but not for somebody who gives up soon.
func TestSweepMakesWay(t *testing.T) {
	t.Parallel()
	for what, patience := range map[string]time.Duration{"waits": time.Hour, "gives up": 2 * time.Second} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := altered{closed: new(atomic.Int32), gone: new(atomic.Bool)}
				var swept atomic.Int32
				tailing := make(chan struct{})
				a.scripted = &scripted{run: func(ctx context.Context, _ source.Emit) error {
					close(tailing)
					<-ctx.Done()
					return nil
				}}
				time.AfterFunc(patience, func() { a.gone.Store(true) })
				to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
					swept.Add(int32(len(ds)))
					return nil
				}}
				r := relayOther(t, a, to, a, func(c *relay.Config) { c.Kept = func(string) bool { return false } })
				runUntil(t, r, tailing, time.Minute, "the tail begins")
				want := map[string]int32{"waits": 6, "gives up": 3}[what]
				if n := swept.Load(); n != want {
					t.Errorf("%d deliveries, want %d", n, want)
				}
			})
		})
	}
}
