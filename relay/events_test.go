package relay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// The age of the oldest message that a sink has not taken is that of the commit, by the database's clock, until the sink takes it.
func TestOldestUndelivered(t *testing.T) {
	t.Parallel()
	const before, ahead, held = time.Minute, time.Hour, 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		to := answering{func(context.Context, []*sink.Delivery) []error {
			<-release
			return nil
		}}
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			b := messages(2)
			for i, m := range b.Messages {
				m.CommitTime = time.Now().Add(-ahead - before + time.Duration(i)*before/2)
			}
			if err := emit(ctx, b); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		var last relay.Sample
		end := started(t, relayOther(t, src, to, &shelf{ahead: ahead}, func(c *relay.Config) {
			c.Events.Sampled = func(s relay.Sample) { last = s }
		}))
		_ = until(t.Context(), held)
		synctest.Wait()
		if age := last.Sinks["out"].OldestUndelivered; age < before || age > before+held {
			t.Errorf("a message that was committed %v ago is %v old", before, age)
		}
		close(release)
		_ = until(t.Context(), held)
		synctest.Wait()
		if age := last.Sinks["out"].OldestUndelivered; age != 0 {
			t.Errorf("age %v after everything was delivered", age)
		}
		end()
	})
}
