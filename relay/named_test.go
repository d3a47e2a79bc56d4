package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// refusing takes nothing of a call with a message that it does not take, and names that message.
type refusing struct {
	bad string
	all int // of the messages

	mu    sync.Mutex
	taken []string
	done  chan struct{}
}

func (r *refusing) Deliver(_ context.Context, ds []*sink.Delivery) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(ds, func(d *sink.Delivery) bool { return d.Message.ID == r.bad }); i >= 0 {
		errs := make([]error, len(ds))
		for j := range errs {
			errs[j] = sink.ErrNotAttempted
		}
		errs[i] = sink.Permanent(errors.New("invalid record"))
		return errs
	}
	for _, d := range ds {
		if r.taken = append(r.taken, d.Message.ID); len(r.taken) == r.all-1 {
			close(r.done)
		}
	}
	return nil
}

func (*refusing) Limits() sink.Limits         { return sink.Limits{Batch: 100, Run: 100, Concurrency: 4} }
func (*refusing) Close(context.Context) error { return nil }

// A message that a sink names, and for which it takes nothing of the batch, is given up, wherever it stands: what is before
// it in its group arrives, and other groups do, and what is behind it after it was skipped.
func TestNamedMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, bad := range []int{0, 1, 3, 9} {
		for groups := 1; groups <= 3; groups++ {
			t.Run(fmt.Sprintf("message %d of 10 in %d groups", bad, groups), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { namedMessageIsGivenUp(t, bad, groups) })
			})
		}
	}
}

func namedMessageIsGivenUp(t *testing.T, bad, groups int) {
	to := &refusing{bad: fmt.Sprint(bad), all: 10, done: make(chan struct{})}
	store := parking{parked: make(chan int, 100), request: make(chan checkpoint.Request, 1)}
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		b := messages(10)
		for i, m := range b.Messages {
			m.Group = fmt.Sprint("order:", i%groups)
			if i%groups == bad%groups && i > bad {
				m.Group = "behind" // what follows in the group would wait for an operator
			}
		}
		if err := emit(ctx, b); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
	end := started(t, relayWith(t, src, to, store, 0))
	within, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	select {
	case n := <-store.parked:
		if n != 1 {
			t.Errorf("%d deliveries parked, want the one that was refused", n)
		}
	case <-within.Done():
		t.Error("nothing was given up within a minute")
	}
	select {
	case <-to.done:
	case <-within.Done():
		t.Error("the others did not arrive within a minute")
	}
	end()
	last := map[string]int{}
	for _, id := range to.taken {
		var n int
		if _, err := fmt.Sscan(id, &n); err != nil {
			t.Fatal(err)
		}
		group := fmt.Sprint(n%groups, n > bad)
		if before, has := last[group]; has && n <= before {
			t.Errorf("group %s: %d after %d", group, n, before)
		}
		last[group] = n
	}
}
