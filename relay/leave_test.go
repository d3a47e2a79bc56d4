package relay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A call that ignores the end of its context keeps neither a soft stop nor the end of a term waiting.
func TestCallThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		called, release := make(chan struct{}, 100), make(chan struct{})
		defer close(release)
		to := answering{func(context.Context, []*sink.Delivery) []error {
			called <- struct{}{}
			<-release
			return nil
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			if err := emit(ctx, messages(3)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		r := relayOf(t, src, to)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		<-called
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the relay waits for a call that does not end")
		}
	})
}
