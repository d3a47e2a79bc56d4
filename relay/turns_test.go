package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// byType is a sink with a destination for each type.
type byType struct{ answering }

func (byType) Destination(d *sink.Delivery) sink.Destination {
	return sink.Destination{Name: d.Message.Type}
}

// A message for a destination that works does not wait for a turn of each of a thousand that fail.
func TestTurnsOfAWorkingDestination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const failing = 1000
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
			b.Messages[0].ID = "first"
			if err := emit(ctx, b); err != nil {
				return err
			}
			<-first
			b = messages(failing + 1)
			for i, m := range b.Messages {
				m.ID, m.Type, m.Position.Commit = fmt.Sprint("failing ", i), fmt.Sprint("missing ", i), 2
			}
			last := b.Messages[failing]
			last.ID, last.Type = "second", "T"
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
	})
}
