package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// bounded is a sink with limits of its own.
type bounded struct {
	answering
	limits sink.Limits
}

func (b bounded) Limits() sink.Limits { return b.limits }

// until waits for so long, or less if the call is to end.
func until(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mixed is a source of batches of 100 messages whose types a function says. It reads one every so often.
func mixed(batches int, every time.Duration, kind func(n int) string) *scripted {
	return &scripted{run: func(ctx context.Context, emit source.Emit) error {
		for i := range batches {
			b := messages(100)
			b.Resume = source.Resume(fmt.Sprint(i + 1))
			for n, m := range b.Messages {
				m.ID, m.Group, m.Type = fmt.Sprint(i, n), fmt.Sprint("order:", i, n), kind(n)
				m.Position.Commit, m.Payload = uint64(i+1), make([]byte, 2<<10)
			}
			if err := errors.Join(until(ctx, every), emit(ctx, b)); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}
}

// oneSlow makes one message of each batch one of the type Slow.
func oneSlow(n int) string {
	if n == 0 {
		return "Slow"
	}
	return "Quick"
}

// relayOfTwo is a relay whose memory holds some 30 batches of mixed; quick gets what is of the type Quick, slow the rest. Both
// get what is of the type Both.
func relayOfTwo(t *testing.T, src source.Source, store checkpoint.Store, slow, quick sink.Sink) *relay.Relay {
	t.Helper()
	rt, err := router.New(router.Config{Sinks: []string{"slow", "quick"},
		Tables: []outbox.Table{{Schema: "public", Name: "outbox", Shape: "debezium"}},
		Routes: []router.RouteConfig{
			{Match: map[string][]string{"type": {"Quick"}}, To: []string{"quick"}},
			{Match: map[string][]string{"type": {"Slow"}}, To: []string{"slow"}},
			{Match: map[string][]string{"type": {"Both"}}, To: []string{"slow", "quick"}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(relay.Config{Source: src, Router: rt, Sinks: map[string]sink.Sink{"slow": slow, "quick": quick},
		Memory: 8 << 20, Kept: func(string) bool { return true },
		Open: func(context.Context) (checkpoint.Store, error) { return store, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A sink that answers late, seldom or never holds up no other sink, though few messages are for it: each of them keeps its whole
// batch in memory.
func TestSinkWithASmallShareHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	busy := sink.Limits{Batch: 1, Run: 1, Concurrency: 4}
	cases := map[string]struct {
		limits  sink.Limits
		deliver func(ctx context.Context, call int) error
		every   time.Duration // the source reads a batch
		batches int           // that the other sink takes
		within  time.Duration
		most    int // calls; 0: any number
	}{
		"calls time out": {busy, func(ctx context.Context, _ int) error {
			return sink.Rejected(errors.Join(errors.New("no answer"), until(ctx, 30*time.Second)))
		}, 50 * time.Millisecond, 1000, time.Minute, 4},
		"a call succeeds now and then": {sink.Limits{Batch: 1, Run: 1, Concurrency: 1}, func(ctx context.Context, _ int) error {
			return until(ctx, 2*time.Second)
		}, 0, 300, 2 * time.Minute, 0},
		"calls that fill the memory never end": {sink.Limits{Batch: 1, Run: 1, Concurrency: 64}, func(ctx context.Context, _ int) error {
			if err := until(ctx, time.Hour); err != nil {
				return sink.Rejected(err)
			}
			return nil
		}, 0, 1000, 30 * time.Second, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls, taken atomic.Int64
				slow := bounded{answering{func(ctx context.Context, ds []*sink.Delivery) []error {
					if err := c.deliver(ctx, int(calls.Add(1))); err != nil {
						return slices.Repeat([]error{err}, len(ds))
					}
					return nil
				}}, c.limits}
				done, all := make(chan struct{}), int64(c.batches*99)
				quick := bounded{answering{func(_ context.Context, ds []*sink.Delivery) []error {
					if taken.Add(int64(len(ds))) == all {
						close(done)
					}
					return nil
				}}, sink.Limits{Batch: 1000, Run: 1000, Concurrency: 1}}
				r := relayOfTwo(t, mixed(c.batches, c.every, oneSlow), accepting{}, slow, quick)
				runUntil(t, r, done, c.within, "what is for the other sink")
				t.Logf("%d of %d messages, %d calls of the slow sink", taken.Load(), all, calls.Load())
				if n := int(calls.Load()); c.most > 0 && n > c.most {
					t.Errorf("%d calls of the sink that takes nothing, want those before it was parked: %d", n, c.most)
				}
			})
		})
	}
}

// A sink that was parked because others starved gets its deliveries at once again after one of its calls succeeded.
func TestSinkThatHeldUpOthersIsOpenedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const batches = 1000
		var calls atomic.Int64
		done := make(chan struct{})
		slow := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
			if calls.Add(1) <= 4 {
				if err := until(ctx, 20*time.Second); err != nil {
					return []error{sink.Rejected(err)}
				}
			}
			if ds[0].Message.ID == fmt.Sprint(batches-1, 0) {
				close(done)
			}
			return nil
		}}
		var parked atomic.Int64
		store := &shelf{settle: func(in *checkpoint.Settlement) *checkpoint.Settled {
			parked.Add(int64(len(in.Park)))
			return saved(in)
		}}
		quick := answering{func(context.Context, []*sink.Delivery) []error { return nil }}
		r := relayOfTwo(t, mixed(batches, 50*time.Millisecond, oneSlow), store, slow, quick)
		runUntil(t, r, done, 2*time.Minute, "the last message for the slow sink")
		if n := parked.Load(); n == 0 || n > 500 {
			t.Errorf("%d of %d deliveries were parked, want those of some 20 s", n, batches)
		}
	})
}

// A sink that makes progress is not parked if that would help no other: its own messages fill the memory, or the other sink
// is hardly faster.
func TestSinkThatMakesProgressIsNotParked(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Slow", "Both"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const batches = 300
				src := mixed(batches, 0, func(int) string { return kind })
				store := &shelf{settle: func(in *checkpoint.Settlement) *checkpoint.Settled {
					if len(in.Park) > 0 {
						t.Errorf("%d deliveries to the sink %s are parked", len(in.Park), in.Park[0].Sink)
					}
					return saved(in)
				}}
				at := func(each time.Duration, then func(n int)) sink.Sink {
					return bounded{answering{func(ctx context.Context, ds []*sink.Delivery) []error {
						if err := until(ctx, each*time.Duration(len(ds))); err != nil {
							return []error{sink.NotAttempted(err)}
						}
						then(len(ds))
						return nil
					}}, sink.Limits{Batch: 50, Run: 50, Concurrency: 1}}
				}
				n, done := 0, make(chan struct{})
				slow := at(5*time.Millisecond, func(more int) {
					if n += more; n == batches*100 {
						close(done)
					}
				})
				runUntil(t, relayOfTwo(t, src, store, slow, at(4*time.Millisecond, func(int) {})), done, 10*time.Minute, "everything")
			})
		})
	}
}
