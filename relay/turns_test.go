package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// topics is a sink like Kafka's: a topic has a partition for each group that is a number. While partitions are not known, a topic has partition -1, and a
// call to that is not attempted.
type topics struct {
	answering
	known *atomic.Bool // the partitions of topic T
}

func (to topics) Destination(d *sink.Delivery) sink.Destination {
	if d.Message.Type != "T" || !to.known.Load() {
		return sink.Destination{Name: d.Message.Type, Partition: -1}
	}
	partition, _ := strconv.Atoi(d.Message.GroupText())
	return sink.Destination{Name: d.Message.Type, Partition: int32(partition)}
}

// A message for a topic that works does not wait for a turn of each of thousands that do not exist: not if its partition was forgotten as idle, not if
// nothing has gone to that partition yet, and not if the topic's partitions have to be asked for again.
func TestTurnsOfAWorkingDestination(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		partition string
		missing   int
		askAgain  bool
	}{
		{"forgotten", "0", 3000, false}, // more than a sink keeps in memory while nothing waits for them
		{"in memory", "0", 700, false},
		{"new partition", "1", 3000, false},
		{"asked for again", "0", 700, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { turnsOfAWorkingDestination(t, c.partition, c.missing, c.askAgain) })
		})
	}
}

func turnsOfAWorkingDestination(t *testing.T, partition string, missing int, askAgain bool) {
	t.Helper()
	first, second := make(chan struct{}), make(chan struct{})
	to := topics{known: &atomic.Bool{}}
	to.answering = answering{func(_ context.Context, ds []*sink.Delivery) []error {
		<-time.After(10 * time.Millisecond)
		switch {
		case ds[0].Message.Type != "T":
			return []error{sink.Misconfigured(errors.New("the topic does not exist"))}
		case ds[0].Destination.Partition < 0:
			to.known.Store(true)
			return []error{sink.ErrNotAttempted}
		case ds[0].Message.ID == "first":
			close(first)
		default:
			close(second)
		}
		return nil
	}}
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		b := messages(1)
		b.Messages[0].ID, b.Messages[0].Type, b.Messages[0].Group = "first", "T", "0"
		if err := emit(ctx, b); err != nil {
			return err
		}
		<-first
		to.known.Store(!askAgain)
		b = messages(missing + 1)
		for i, m := range b.Messages {
			m.ID, m.Type, m.Position.Commit = fmt.Sprint("missing ", i), fmt.Sprint("missing ", i), 2
		}
		last := b.Messages[missing]
		last.ID, last.Type, last.Group = "second", "T", partition
		began := time.Now()
		if err := emit(ctx, b); err != nil {
			return err
		}
		<-second
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the message came after %v, and each call takes 10 ms", took)
		}
		<-ctx.Done()
		return nil
	}}
	runUntil(t, relayWith(t, src, to, newYard(), 0), second, time.Hour, "the second message")
}
