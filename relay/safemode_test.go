package relay_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A backlog is a shelf with deliveries of one group, the first of which is due.
type backlog struct {
	shelf
	left   []checkpoint.Parked
	ends   []checkpoint.Change // of those that were not delivered
	empty  chan struct{}       // closed when nothing is left
	mu     sync.Mutex
	events []string
}

func (b *backlog) note(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
}

func newBacklog(l checkpoint.Loaded, left ...checkpoint.Parked) *backlog {
	b := &backlog{left: left, empty: make(chan struct{})}
	b.loaded = l
	b.loaded.Blocked = []checkpoint.Lane{{Sink: "out", Group: "g"}}
	b.due = func([]string) []checkpoint.Parked {
		if len(b.left) == 0 {
			return nil
		}
		head := b.left[0]
		head.Due = true
		return []checkpoint.Parked{head}
	}
	b.page = func() []checkpoint.Parked {
		b.note("page")
		return b.left
	}
	b.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
		out, before := saved(in), len(b.left)
		for _, c := range in.Changes {
			b.left = slices.DeleteFunc(slices.Clone(b.left), func(p checkpoint.Parked) bool { return p.Key() == c.Key })
			if !c.Delivered {
				b.ends = append(b.ends, c)
			}
		}
		if lane := (checkpoint.Lane{Sink: "out", Group: "g"}); len(b.left) > 0 {
			out.Next = append(out.Next, lane)
		} else {
			out.Open = append(out.Open, lane)
		}
		if before > 0 && len(b.left) == 0 {
			close(b.empty)
		}
		return out
	}
	b.starting = func(s checkpoint.CrashCandidate) {
		if s.Times > 0 {
			b.note("in hand " + s.Position.String())
		}
	}
	return b
}

// run lets a relay work on the backlog, and on one message of the log, until the sink has taken n and nothing is left of the backlog.
func (b *backlog) run(t *testing.T, n int) {
	t.Helper()
	var taken atomic.Int32
	sent, done := make(chan struct{}), make(chan struct{})
	go func() {
		for _, awaited := range []chan struct{}{sent, b.empty} {
			select {
			case <-awaited:
			case <-t.Context().Done():
				return
			}
		}
		close(done)
	}()
	to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
		for _, d := range ds {
			b.note("sent " + d.Message.Position.String())
			if taken.Add(1) == int32(n) {
				close(sent)
			}
		}
		return nil
	}}
	batch := messages(1)
	batch.Messages[0].Position = outbox.Position{Log: 1, Commit: 9}
	runUntil(t, relayWith(t, &asksFirst{batch: batch}, to, b, 0), done, time.Minute, "what may be sent is sent")
}

// A cautious start takes parked deliveries in hand as it does messages of the log: one at a time, on record before.
func TestSafeModePoller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(checkpoint.Loaded{UncleanStarts: 3}, waiting(0), waiting(1), waiting(2))
		b.run(t, 4)
		var want []string
		for _, p := range []outbox.Position{{Log: 1}, {Log: 1, N: 1}, {Log: 1, N: 2}, {Log: 1, Commit: 9}} {
			want = append(want, "in hand "+p.String(), "sent "+p.String())
		}
		if !slices.Equal(b.events, want) {
			t.Errorf("events\n%q, want\n%q", b.events, want)
		}
	})
}

// A parked delivery that was in hand when relays ended is given up without another attempt.
func TestParkedPoisonIsGivenUp(t *testing.T) {
	t.Parallel()
	poison := waiting(0)
	behind := waiting(0) // as it is parked behind others when its crashes are known already
	behind.ErrorClass, behind.LastError = "crash", "the relay ended 3 times"
	for name, b := range map[string]*backlog{
		"on record":            newBacklog(checkpoint.Loaded{UncleanStarts: 3, Started: checkpoint.CrashCandidate{Position: poison.Message.Position, Times: 3}}, poison),
		"known by its row":     newBacklog(checkpoint.Loaded{}, behind),
		"the same, cautiously": newBacklog(checkpoint.Loaded{UncleanStarts: 3}, behind),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b.run(t, 1)
				if slices.Contains(b.events, "sent "+poison.Message.Position.String()) {
					t.Errorf("it was sent: %q", b.events)
				}
				if len(b.ends) != 1 || b.ends[0].ErrorClass != "crash" || b.ends[0].State != checkpoint.StateDead {
					t.Errorf("ends: %+v, want one dead letter of class crash", b.ends)
				}
			})
		})
	}
}

// A cautious start that takes nothing but parked deliveries in hand ends as well.
func TestSafeModePollerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 1200
		var left []checkpoint.Parked
		for i := range n {
			left = append(left, waiting(i))
		}
		b := newBacklog(checkpoint.Loaded{UncleanStarts: 3}, left...)
		settle := b.settle
		b.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			b.loaded.UncleanStarts = 0
			return settle(in)
		}
		b.run(t, n)
		inHand := 0
		for _, event := range b.events {
			if strings.HasPrefix(event, "in hand") {
				inHand++
			}
		}
		if inHand < 1000 || inHand > 1010 {
			t.Errorf("%d were taken in hand one by one, want the first 1000", inHand)
		}
	})
}

func (b *backlog) Save(_ context.Context, _ *checkpoint.Checkpoint) error {
	b.note("saved")
	return nil
}

// A start with nothing to read counts as a clean one, but not before what is parked was tried: or a delivery that ends the relay
// would do so for ever.
func TestIdleStartCountsAfterThePoller(t *testing.T) {
	t.Parallel()
	for name, unclean := range map[string]int{"an ordinary start": 0, "a cautious start": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBacklog(checkpoint.Loaded{UncleanStarts: unclean}, waiting(0))
				done := make(chan struct{})
				to := checked{check: func(context.Context) []error { <-time.After(time.Second); return nil }}
				to.deliver = func(context.Context, []*sink.Delivery) []error {
					b.note("sent")
					<-time.After(time.Second)
					b.note("answered")
					close(done)
					return nil
				}
				runUntil(t, relayWith(t, emitting(&source.Batch{}), to, b, 0), done, time.Minute, "it is sent")
				if slices.Index(b.events, "saved") >= 0 && slices.Index(b.events, "saved") < slices.Index(b.events, "answered") {
					t.Errorf("events %q: the start counted as clean before the sink had answered", b.events)
				}
			})
		})
	}
}

// A message that could not be routed is due at once, and has to wait for what is before it in the log: a cautious start reads that
// meanwhile, and does not put it on record before its turn.
func TestSafeModePollerWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		batch := messages(3) // the last of which was parked
		for i, m := range batch.Messages {
			m.Group, m.Position.Commit = "g", uint64(i+1)
		}
		last := batch.Messages[2]
		copied := *last
		due := checkpoint.Parked{Message: &copied, State: checkpoint.StateRetrying, Blocks: true, Due: true}
		b := newBacklog(checkpoint.Loaded{UncleanStarts: 3, Checkpoint: &checkpoint.Checkpoint{SourceID: "s", Resume: "0", Log: 1,
			SettledAbove: map[string][]checkpoint.Range{"": {{First: last.Position, Last: last.Position}}}}}, due)
		b.loaded.Blocked = nil
		settle, done := b.settle, make(chan struct{})
		b.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Changes) > 0 {
				b.note("rerouted")
				close(done)
			}
			return settle(in)
		}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			b.note("sent " + ds[0].Message.Position.String())
			return nil
		}}
		runUntil(t, relayWith(t, &asksFirst{batch: batch}, to, b, 0), done, time.Minute, "the one that is due")
		var want []string
		for _, m := range batch.Messages {
			want = append(want, "in hand "+m.Position.String(), "sent "+m.Position.String())
		}
		want = append(want, "in hand "+last.Position.String(), "rerouted")
		if !slices.Equal(b.events, want) {
			t.Errorf("events\n%q, want\n%q", b.events, want)
		}
	})
}

// The record of what is in hand outlasts the log's progress without messages: or a delivery that ends the relay would be forgotten.
func TestRecordOutlastsBareProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(checkpoint.Loaded{UncleanStarts: 3}, waiting(0))
		settle, done := b.settle, make(chan struct{})
		b.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Changes) == 0 {
				b.note("saved")
			}
			return settle(in)
		}
		inCall := make(chan struct{})
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			<-inCall
			if err := emit(ctx, &source.Batch{Resume: "1", LogBytes: 64 << 20}); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		to := answering{func(context.Context, []*sink.Delivery) []error {
			close(inCall)
			<-time.After(time.Second)
			b.note("answered")
			close(done)
			return nil
		}}
		runUntil(t, relayWith(t, src, to, b, 0), done, time.Minute, "it is sent")
		at := slices.Index(b.events, "saved")
		if answered := slices.Index(b.events, "answered"); at >= 0 && at < answered {
			t.Errorf("events %q: the log's progress was saved, and the record cleared, before the sink had answered", b.events)
		}
	})
}
