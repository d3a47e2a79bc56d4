package relay_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/sink"
)

// narrow is a sink whose topics may have twenty bytes.
type narrow struct {
	t *testing.T

	mu    sync.Mutex
	taken []string
	done  chan struct{}
}

func (n *narrow) CheckTopic(topic string) error {
	if len(topic) > 20 {
		return errors.New("twenty bytes at most")
	}
	return nil
}

func (n *narrow) Destination(d *sink.Delivery) sink.Destination {
	if len(d.Topic) > 20 {
		n.t.Errorf("asked for the destination of a topic of %d bytes", len(d.Topic))
	}
	return sink.Destination{Name: d.Topic}
}

func (n *narrow) Deliver(_ context.Context, ds []*sink.Delivery) []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range ds {
		n.taken = append(n.taken, d.Message.ID)
	}
	if len(n.taken) == 2 {
		close(n.done)
	}
	return nil
}

func (n *narrow) Limits() sink.Limits {
	return sink.Limits{Batch: 10, Run: 10, Concurrency: 2, Topic: n}
}
func (*narrow) Close(context.Context) error { return nil }

// A topic that its sink cannot carry makes its message a dead letter before anything asks for its destination, from the log and from what is
// parked, and what says so is short. The others arrive.
func TestTopicThatASinkCannotCarry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("t", 50_000)
		to := &narrow{t: t, done: make(chan struct{})}
		b := messages(3)
		b.Messages[1].Type = long // the topic is made of it
		parked := waiting(0)
		parked.Message.Type, parked.Message.Group, parked.Blocks = long, "", false
		var mu sync.Mutex
		dead := map[string]string{}
		store := &shelf{}
		both := make(chan struct{})
		died := func(id, class, text string) {
			mu.Lock()
			defer mu.Unlock()
			if dead[id] = text; len(dead) == 2 {
				close(both)
			}
			if class != "permanent" || !strings.Contains(text, "twenty bytes at most") || !strings.Contains(text, "topic's column") || len(text) > 500 {
				t.Errorf("%s died of %s: %.600s", id, class, text)
			}
		}
		store.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			for _, p := range in.Park {
				if p.State != checkpoint.StateDead {
					t.Errorf("%s is parked as %s", p.Message.ID, p.State)
				}
				died(p.Message.ID, p.ErrorClass, p.LastError)
			}
			for _, c := range in.Changes {
				if c.State != checkpoint.StateDead || c.Delivered {
					t.Errorf("changed: %+v", c)
				}
				parked.State = checkpoint.StateDead
				died(c.Key.ID, c.ErrorClass, c.LastError)
			}
			return saved(in)
		}
		store.due = func([]string) []checkpoint.Parked {
			if parked.State == checkpoint.StateDead {
				return nil
			}
			return []checkpoint.Parked{parked}
		}
		end := started(t, relayWith(t, emitting(b), to, store, 0))
		for what, done := range map[string]chan struct{}{"both died": both, "the others arrived": to.done} {
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Errorf("not within a minute: %s", what)
			}
		}
		end()
	})
}
