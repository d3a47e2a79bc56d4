package relay_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A shelf is a store with parked deliveries, of which functions say what there is. Those that are nil have nothing.
type shelf struct {
	accepting
	loaded   checkpoint.Loaded
	due      func(sinks []string) []checkpoint.Parked
	page     func() []checkpoint.Parked
	settle   func(*checkpoint.Settlement) *checkpoint.Settled
	requests func() []checkpoint.Request
	lanes    []checkpoint.Lane // of each request
	apply    func() *checkpoint.Applied
	starting func(checkpoint.CrashCandidate)
	ahead    time.Duration // of the host's clock
}

func (s *shelf) Ping(context.Context) (time.Time, error) { return time.Now().Add(-s.ahead), nil }

func (s *shelf) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	l, err := s.accepting.Load(ctx)
	loaded := s.loaded
	if loaded.Checkpoint == nil {
		loaded.Checkpoint = l.Checkpoint
	}
	return &loaded, err
}

func (s *shelf) Due(_ context.Context, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	if s.due == nil {
		return nil, 0, nil
	}
	return s.due(q.Sinks), 0, nil
}

func (s *shelf) Page(context.Context, checkpoint.Lane, outbox.Position, int, int) ([]checkpoint.Parked, bool, error) {
	return s.page(), false, nil
}

func (s *shelf) Settle(ctx context.Context, in *checkpoint.Settlement) (*checkpoint.Settled, error) {
	if s.settle == nil {
		return s.accepting.Settle(ctx, in)
	}
	return s.settle(in), nil
}

func (s *shelf) Requests(context.Context) ([]checkpoint.Request, error) {
	if s.requests == nil {
		return nil, nil
	}
	return s.requests(), nil
}

func (s *shelf) Lanes(context.Context, *checkpoint.Request, int) ([]checkpoint.Lane, error) {
	return s.lanes, nil
}

func (s *shelf) Apply(context.Context, *checkpoint.Request, []checkpoint.Lane) (*checkpoint.Applied, error) {
	return s.apply(), nil
}

func (s *shelf) Starting(_ context.Context, candidate checkpoint.CrashCandidate) error {
	if s.starting != nil {
		s.starting(candidate)
	}
	return nil
}

// saved is what a settlement of nothing in particular answers.
func saved(in *checkpoint.Settlement) *checkpoint.Settled {
	return &checkpoint.Settled{Saved: in.Checkpoint(nil) != nil}
}

// waiting is message n of group g as it is parked at the sink out.
func waiting(n int) checkpoint.Parked {
	m := messages(1).Messages[0]
	m.ID, m.Group, m.Position = fmt.Sprint("parked ", n), "g", outbox.Position{Log: 1, N: uint32(n)}
	return checkpoint.Parked{Sink: "out", Message: m, State: checkpoint.StateWaiting, Blocks: true, Due: n == 0}
}

// started runs a relay until it is ended, which is to be without an error.
func started(t *testing.T, r *relay.Relay) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// runUntil runs a relay until done is closed, and fails the test if that takes longer than within.
func runUntil(t *testing.T, r *relay.Relay, done <-chan struct{}, within time.Duration, what string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-done:
	case <-time.After(within):
		t.Errorf("%s: not within %v", what, within)
	case err := <-ended:
		t.Fatalf("%s: the relay ended: %v", what, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// once closes what may be closed already, by the same goroutine.
func once(c chan struct{}) {
	if !closed(c) {
		close(c)
	}
}

// emitting is a source that emits batches, and then nothing more.
func emitting(batches ...*source.Batch) *scripted {
	return &scripted{run: func(ctx context.Context, emit source.Emit) error {
		for _, b := range batches {
			if err := emit(ctx, b); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}
}

// A hold of a group without a sink waits for the run of what was brought back, as one with a sink does.
func TestHoldWithoutSinkWaitsForARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inCall, applied, settled := make(chan struct{}), make(chan struct{}), make(chan struct{})
		brought := false
		store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Sink: "out", Group: "g"}}}, lanes: []checkpoint.Lane{{Group: "g"}}}
		store.due = func([]string) []checkpoint.Parked {
			if brought {
				return nil
			}
			brought = true
			return []checkpoint.Parked{waiting(0)}
		}
		store.requests = func() []checkpoint.Request {
			if !closed(inCall) || closed(applied) {
				return nil
			}
			return []checkpoint.Request{{ID: 1, Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Groups: []string{"g"}}}}
		}
		store.apply = func() *checkpoint.Applied {
			if !closed(settled) {
				t.Error("the hold was carried out while a run of its group was in flight")
			}
			close(applied)
			return &checkpoint.Applied{Done: true, Blocked: store.lanes}
		}
		store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Changes) == 1 && in.Changes[0].Delivered {
				close(settled)
			}
			return saved(in)
		}
		to := answering{func(context.Context, []*sink.Delivery) []error {
			close(inCall)
			<-time.After(10 * time.Second)
			return nil
		}}
		both := make(chan struct{})
		go func() { <-settled; <-applied; close(both) }()
		runUntil(t, relayWith(t, emitting(), to, store, 0), both, time.Minute, "the run is settled, and the hold carried out")
	})
}

// asksFirst is a source that asks before each message, as in a cautious start.
type asksFirst struct {
	scripted
	batch *source.Batch
	runs  int
}

func (s *asksFirst) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	s.runs++
	for i, m := range s.batch.Messages {
		if start.SafeMode != nil {
			if err := start.SafeMode(ctx, m.Position); err != nil {
				return err
			}
		}
		b := &source.Batch{Messages: s.batch.Messages[i : i+1]}
		if i == len(s.batch.Messages)-1 {
			b.Resume = s.batch.Resume
		}
		if err := emit(ctx, b); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// A cautious start gets past more messages of one transaction that are settled than it would take in hand otherwise.
func TestSafeModeStartPassesWhatIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := messages(1501)
		store := &shelf{loaded: checkpoint.Loaded{UncleanStarts: 3, Checkpoint: &checkpoint.Checkpoint{SourceID: "s", Resume: "0", Log: 1,
			SettledAbove: map[string][]checkpoint.Range{checkpoint.Whole: {{First: b.Messages[0].Position, Last: b.Messages[1499].Position}}}}}}
		done := make(chan struct{})
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if ds[0].Message.ID != "1500" {
				t.Errorf("message %s was sent again", ds[0].Message.ID)
			}
			close(done)
			return nil
		}}
		src := &asksFirst{batch: b}
		runUntil(t, relayWith(t, src, to, store, 0), done, time.Minute, "the message that is not settled arrives")
		if src.runs != 1 {
			t.Errorf("the source was started %d times", src.runs)
		}
	})
}

// A group whose parked messages are caught up with slowly does not keep the others' from being read: what arrives for it is
// parked before memory is full.
func TestSlowGroupLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		brought, paged := false, false
		store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Sink: "out", Group: "g"}}}}
		store.due = func([]string) []checkpoint.Parked {
			if brought {
				return nil
			}
			brought = true
			return []checkpoint.Parked{waiting(0)}
		}
		store.page = func() []checkpoint.Parked {
			if paged {
				return nil
			}
			paged = true
			return []checkpoint.Parked{waiting(1), waiting(2), waiting(3)}
		}
		store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			out := saved(in)
			if len(in.Changes) > 0 {
				out.Next = []checkpoint.Lane{{Sink: "out", Group: "g"}}
			}
			return out
		}
		var mu sync.Mutex
		got, done := 0, make(chan struct{})
		to := answering{func(ctx context.Context, ds []*sink.Delivery) []error {
			if m := ds[0].Message; m.Group == "g" {
				if m.ID != "parked 0" {
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
						return []error{sink.NotAttempted(ctx.Err())}
					}
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if got++; got == n {
				close(done)
			}
			return nil
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			<-time.After(5 * time.Second) // the last page is in memory
			for i := range n {
				b := messages(2)
				for j, m := range b.Messages {
					m.ID, m.Position.Commit, m.Payload = fmt.Sprint(i, j), uint64(i+2), make([]byte, 25<<10)
				}
				b.Messages[0].Group, b.Resume = "g", source.Resume(fmt.Sprint(i))
				if err := emit(ctx, b); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}}
		runUntil(t, relayWithin(t, 1<<20, src, to, store, 0), done, time.Minute, "the messages of other groups")
	})
}

// What a call leaves behind that ended after its sink was paused does not fill the poller's hands: other sinks, and what
// cannot be routed, have their turn.
func TestPausedSinkLetsThePollerGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		brought, paused := false, false
		asked := make(chan struct{})
		store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Sink: "out", Group: "g"}}}}
		store.due = func([]string) []checkpoint.Parked {
			if time.Since(began) > 20*time.Second && !closed(asked) {
				close(asked)
			}
			if brought {
				return nil
			}
			brought = true
			return []checkpoint.Parked{waiting(0)}
		}
		store.page = func() (page []checkpoint.Parked) {
			for i := range 600 {
				page = append(page, waiting(i+1))
			}
			return page
		}
		store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			out := saved(in)
			if len(in.Changes) == 1 && in.Changes[0].Key.ID == "parked 0" {
				out.Next = []checkpoint.Lane{{Sink: "out", Group: "g"}}
			}
			return out
		}
		store.requests = func() []checkpoint.Request {
			if paused || time.Since(began) < 2*time.Second {
				return nil
			}
			return []checkpoint.Request{{ID: 1, Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"out"}}}}
		}
		store.apply = func() *checkpoint.Applied {
			paused = true
			return &checkpoint.Applied{Done: true}
		}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if ds[0].Message.ID == "parked 1" {
				<-time.After(10 * time.Second)
			}
			return nil
		}}
		runUntil(t, relayWith(t, emitting(), to, store, 0), asked, time.Minute, "the poller asks again")
	})
}

// What is parked before a message that cannot be routed is sent: only what is behind that one waits for an operator.
func TestParkedBeforeAnUnroutableIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{loaded: checkpoint.Loaded{Blocked: []checkpoint.Lane{{Group: "g"}, {Sink: "out", Group: "g"}}}}
		delivered := false
		store.due = func([]string) []checkpoint.Parked {
			if delivered {
				return nil
			}
			return []checkpoint.Parked{waiting(0)}
		}
		done := make(chan struct{})
		store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Changes) == 1 && in.Changes[0].Delivered {
				delivered = true
				close(done)
			}
			return saved(in)
		}
		to := answering{func(context.Context, []*sink.Delivery) []error { return nil }}
		runUntil(t, relayWith(t, emitting(), to, store, 0), done, time.Minute, "what is due")
	})
}

// The row of a message of a kept table, which shows how it was parked, may be settled later than the log is forgotten.
func TestParkedOfKeptTableIsSettledLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches []*source.Batch
		for i := range 1502 {
			b := messages(1)
			m := b.Messages[0]
			m.ID, m.Table, m.Group, m.Position.Commit = fmt.Sprint(i), "public.kept", fmt.Sprint("order:", i), uint64(i+1)
			b.Resume = source.Resume(fmt.Sprint(i + 1))
			batches = append(batches, b)
		}
		batches[1501].Messages[0].Table = "public.outbox"
		done := make(chan struct{})
		store := &shelf{settle: func(in *checkpoint.Settlement) *checkpoint.Settled {
			out := &checkpoint.Settled{}
			for i := range in.Rows {
				switch in.Rows[i].Table {
				case "public.outbox":
					out.Invisible = append(out.Invisible, i)
				default:
					defer close(done)
				}
			}
			out.Saved = in.Checkpoint(out.Invisible) != nil
			return out
		}}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if ds[0].Message.ID == "0" {
				<-time.After(time.Second)
				return []error{sink.Permanent(fmt.Errorf("no"))}
			}
			return nil
		}}
		r := relayOther(t, emitting(batches...), to, store, func(c *relay.Config) {
			c.Kept = func(table string) bool { return table == "public.kept" }
		})
		runUntil(t, r, done, time.Minute, "the row is settled")
	})
}
