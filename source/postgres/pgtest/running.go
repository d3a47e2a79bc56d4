package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/sourcetest"
)

// A Running is a Run in the background.
type Running struct {
	r       *Rig
	cancel  context.CancelFunc
	Batches chan *source.Batch
	done    chan error
}

// Run runs the rig's source.
func (r *Rig) Run(start source.Start) *Running { return r.RunOf(r.Src, start) }

// RunOf runs a source.
func (r *Rig) RunOf(src source.Source, start source.Start) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	x := &Running{r: r, cancel: cancel, Batches: make(chan *source.Batch), done: make(chan error, 1)}
	go func() {
		x.done <- src.Run(ctx, start, func(ctx context.Context, b *source.Batch) error {
			select {
			case x.Batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(x.Batches)
	}()
	r.T.Cleanup(func() {
		cancel()
		for range x.Batches {
		}
	})
	return x
}

// Next waits for a batch.
func (x *Running) Next() *source.Batch {
	x.r.T.Helper()
	select {
	case b, ok := <-x.Batches:
		if !ok {
			x.r.T.Fatalf("Run ended: %v", <-x.done)
		}
		return b
	case <-time.After(Patience):
		x.r.T.Fatal("waited for a batch")
	}
	return nil
}

// Messages waits for n messages, and returns them with the highest Resume that was emitted once all of them are covered.
func (x *Running) Messages(n int) (ms []*outbox.Message, resume source.Resume) {
	x.r.T.Helper()
	for {
		b := x.Next()
		ms = append(ms, b.Messages...)
		sourcetest.CheckBatch(x.r.T, b)
		if len(ms) > n {
			x.r.T.Fatalf("got %d messages, want %d", len(ms), n)
		}
		if len(ms) == n && b.Resume != "" {
			return ms, b.Resume
		}
	}
}

// Stop ends Run as the relay does.
func (x *Running) Stop() error {
	x.r.T.Helper()
	x.cancel()
	return x.Wait()
}

// Wait returns what Run returned. Batches that come until then are dropped.
func (x *Running) Wait() error {
	x.r.T.Helper()
	limit := time.After(Patience)
	for {
		select {
		case err := <-x.done:
			return err
		case <-x.Batches:
		case <-limit:
			x.r.T.Fatal("waited for the end of Run")
		}
	}
}

// Fails waits for the end of Run and looks at its error.
func (x *Running) Fails(target error, text string) {
	x.r.T.Helper()
	err := x.Wait()
	if !errors.Is(err, target) || !strings.Contains(fmt.Sprint(err), text) {
		x.r.T.Fatalf("Run ended with %v, want %v and %q in it", err, target, text)
	}
}

// IDs are those of the messages, in order.
func IDs(ms []*outbox.Message) string {
	var s []string
	for _, m := range ms {
		s = append(s, m.ID)
	}
	return strings.Join(s, " ")
}
