package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
)

// resumedYard is a yard with four deliveries that are due at a sink which an operator resumes after ten minutes. The channel is closed when
// all of them have left it.
func resumedYard() (store *yard, resumed *bool, done chan struct{}) {
	store, resumed, done = newYard(), new(bool), make(chan struct{})
	for i := range 4 {
		p := waiting(i)
		p.Message.Group, p.Blocks, p.Due = "", false, true
		store.rows[p.Message.ID] = &p
	}
	began := time.Now()
	store.requests = func() []checkpoint.Request {
		if *resumed || time.Since(began) < 10*time.Minute {
			return nil
		}
		return []checkpoint.Request{{ID: 1, Verb: checkpoint.VerbResume, Selection: checkpoint.Selection{Sinks: []string{"out"}}}}
	}
	store.apply = func() *checkpoint.Applied {
		*resumed = true
		return &checkpoint.Applied{Done: true}
	}
	store.shelf.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
		out := store.settled(in)
		if n, _ := store.left(); n == 0 {
			close(done)
		}
		return out
	}
	return store, resumed, done
}

// What the poller had in hand when a sink asked for a long rest goes out soon after an operator has ended that.
func TestResumeReachesWhatWasPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		store, resumed, done := resumedYard()
		due := store.shelf.due
		throttled := false
		store.shelf.due = func(sinks []string) []checkpoint.Parked {
			asked++
			if len(sinks) == 1 {
				return nil
			}
			if throttled && !*resumed {
				t.Errorf("asked for what is due at %v", sinks)
			}
			return due(sinks)
		}
		settle := store.shelf.settle
		store.shelf.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			throttled = true
			return settle(in)
		}
		to := answering{func(context.Context, []*sink.Delivery) []error {
			if time.Since(began) < 10*time.Minute {
				return []error{sink.Throttled(errors.New("by mistake"), time.Hour)}
			}
			return nil
		}}
		runUntil(t, relayWith(t, emitting(), to, store, 0), done, 10*time.Minute+5*time.Second, "what is due")
		if asked > 1000 {
			t.Errorf("asked %d times for what is due in 10 minutes", asked)
		}
	})
}

// What was brought back as the probe of a broken sink gives way to another lane's head at the next probe, and yet goes out soon
// after an operator has closed the breaker.
func TestResumeReachesProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		store, _, done := resumedYard()
		all := store.shelf.due
		store.shelf.due = func(sinks []string) (one []checkpoint.Parked) {
			if len(sinks) == 2 {
				return all(sinks)
			}
			for _, p := range all(sinks) {
				if sinks[0] != "" && (one == nil || store.due[p.Message.ID].Before(store.due[one[0].Message.ID])) {
					one = []checkpoint.Parked{p}
				}
			}
			return one
		}
		var probes []string
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if time.Since(began) < 10*time.Minute {
				if time.Since(began) > time.Minute { // the breaker is open, nothing else is in memory
					probes = append(probes, ds[0].Message.ID)
				}
				return []error{sink.Unreachable(errors.New("connection refused"))}
			}
			return nil
		}}
		runUntil(t, relayWith(t, emitting(), to, store, 0), done, 10*time.Minute+35*time.Second, "what is due")
		for i := range probes[1:] {
			if probes[i] == probes[i+1] {
				t.Errorf("probe %d is %s again", i+1, probes[i])
			}
		}
		if len(probes) < 10 {
			t.Errorf("%d probes in 9 minutes", len(probes))
		}
	})
}
