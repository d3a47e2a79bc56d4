package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// byType is a sink with a destination for each type, which has a partition for each group that is a number.
type byType struct{ answering }

func (byType) Destination(d *sink.Delivery) sink.Destination {
	partition, _ := strconv.Atoi(d.Message.GroupText())
	return sink.Destination{Name: d.Message.Type, Partition: int32(partition)}
}

// A message for a destination that works does not wait for a turn of each of thousands that fail, and were forgotten as it was. Nor does one for a
// partition that nothing has gone to, if another partition works.
func TestTurnsOfAWorkingDestination(t *testing.T) {
	t.Parallel()
	for _, partition := range []string{"0", "1"} {
		t.Run("partition "+partition, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { turnsOfAWorkingDestination(t, partition) })
		})
	}
}

func turnsOfAWorkingDestination(t *testing.T, partition string) {
	t.Helper()
	const failing = 3000 // more than a sink keeps in memory while nothing waits for them
	first, second := make(chan struct{}), make(chan struct{})
	to := byType{answering{func(_ context.Context, ds []*sink.Delivery) []error {
		<-time.After(10 * time.Millisecond)
		switch ds[0].Message.ID {
		case "first":
			close(first)
		case "second":
			close(second)
		default:
			return []error{sink.Misconfigured(errors.New("the topic does not exist"))}
		}
		return nil
	}}}
	src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
		b := messages(1)
		b.Messages[0].ID, b.Messages[0].Group = "first", "0"
		if err := emit(ctx, b); err != nil {
			return err
		}
		<-first
		b = messages(failing + 1)
		for i, m := range b.Messages {
			m.ID, m.Type, m.Position.Commit = fmt.Sprint("failing ", i), fmt.Sprint("missing ", i), 2
		}
		last := b.Messages[failing]
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
