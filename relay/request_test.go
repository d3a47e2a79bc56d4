package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// asking is a store with requests of operators.
type asking struct {
	accepting
	requests func() []checkpoint.Request
	apply    func(*checkpoint.Request)
	refused  string // by the database
}

func (a asking) Requests(context.Context) ([]checkpoint.Request, error) { return a.requests(), nil }

func (asking) Lanes(_ context.Context, r *checkpoint.Request, _ int) ([]checkpoint.Lane, error) {
	if len(r.Selection.Groups) == 0 {
		return nil, nil
	}
	return []checkpoint.Lane{{Sink: "out", Group: r.Selection.Groups[0]}}, nil
}

func (a asking) Apply(_ context.Context, r *checkpoint.Request, _ []checkpoint.Lane) (*checkpoint.Applied, error) {
	a.apply(r)
	return &checkpoint.Applied{Done: true, Refused: a.refused}, nil
}

// A request about a lane waits for its run in flight; the pause of the sink that hangs with it does not.
func TestPauseOvertakesARequestThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		hanging := answering{func(ctx context.Context, _ []*sink.Delivery) []error {
			close(hung)
			<-ctx.Done()
			return []error{sink.Unreachable(ctx.Err())}
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			if err := emit(ctx, messages(1)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		began := time.Now()
		paused := make(chan struct{})
		var done []checkpoint.Verb
		store := asking{requests: func() []checkpoint.Request {
			select {
			case <-hung:
			default:
				return nil
			}
			rs := []checkpoint.Request{{ID: 1, Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Groups: []string{"order:0"}}}}
			if time.Since(began) > 5*time.Second && len(done) == 0 {
				rs = append(rs, checkpoint.Request{ID: 2, Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"out"}}})
			}
			return rs
		}, apply: func(r *checkpoint.Request) {
			if done = append(done, r.Verb); len(done) == 1 {
				close(paused)
			}
		}}
		runUntil(t, relayWith(t, src, hanging, store, 0), paused, time.Minute, "the pause is carried out")
		if len(done) == 0 || done[0] != checkpoint.VerbPause {
			t.Errorf("carried out %v, want the pause first", done)
		}
	})
}

// What the database refused has not happened: a sink whose pause it refused goes on.
func TestRefusedPauseChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused, delivered := make(chan struct{}), make(chan struct{})
		to := answering{func(context.Context, []*sink.Delivery) []error {
			close(delivered)
			return nil
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			<-refused
			synctest.Wait() // the relay has heard of it
			if err := emit(ctx, messages(1)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		asked := []checkpoint.Request{{ID: 1, Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"out"}}}}
		store := asking{refused: "no", requests: func() []checkpoint.Request { return asked }, apply: func(*checkpoint.Request) {
			asked = nil
			close(refused)
		}}
		runUntil(t, relayWith(t, src, to, store, 0), delivered, time.Minute, "the message arrives")
	})
}

// counted is a store whose last starts were unclean, and which tells what message is in hand.
type counted struct {
	accepting
	starting func()
}

func (counted) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	l, err := accepting{}.Load(ctx)
	l.UncleanStarts = 5
	return l, err
}

func (c counted) Starting(context.Context, checkpoint.CrashCandidate) error {
	c.starting()
	return nil
}

// cautious is a source that reads one message, with permission.
type cautious struct{ scripted }

func (*cautious) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	b := messages(1)
	if err := start.SafeMode(ctx, b.Messages[0].Position); err != nil {
		return err
	}
	if err := emit(ctx, b); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// checked is a sink that takes long to connect.
type checked struct {
	answering
	check func(context.Context) []error
}

func (c checked) Check(ctx context.Context) []error { return c.check(ctx) }

// A cautious start takes no message in hand before its sinks are connected: whoever kills the relay until then must not
// incriminate it.
func TestSafeModeStartConnectsFirst(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(context.Context) []error{
		"slow": func(context.Context) []error { <-time.After(3 * time.Second); return nil },
		"hangs": func(ctx context.Context) []error {
			<-ctx.Done()
			return []error{errors.New("no answer")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var events []string
				to := checked{check: func(ctx context.Context) []error {
					err := check(ctx)
					events = append(events, "connected")
					return err
				}}
				delivered := make(chan struct{})
				to.deliver = func(context.Context, []*sink.Delivery) []error {
					events = append(events, "delivered")
					close(delivered)
					return nil
				}
				store := counted{starting: func() { events = append(events, "in hand") }}
				runUntil(t, relayWith(t, &cautious{}, to, store, 0), delivered, time.Minute, "the message arrives")
				if len(events) < 3 || events[0] != "connected" || events[1] != "in hand" || events[2] != "delivered" {
					t.Errorf("events %q, want connected, in hand, delivered", events)
				}
			})
		})
	}
}
