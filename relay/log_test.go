package relay_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
)

// A type of any length does not fill the log.
func TestLongTypeIsCutInTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, done := newYard(), make(chan struct{})
		store.shelf.settle = func(in *checkpoint.Settlement) *checkpoint.Settled {
			if len(in.Park) > 0 {
				close(done)
			}
			return store.settled(in)
		}
		store.shelf.due = nil
		to := answering{func(context.Context, []*sink.Delivery) []error { return []error{sink.Permanent(errors.New("no"))} }}
		b := messages(1)
		b.Messages[0].Type = "x" + strings.Repeat("ä", 25_000)
		var log bytes.Buffer
		r := relayOther(t, emitting(b), to, store, func(c *relay.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		runUntil(t, r, done, time.Minute, "the dead letter")
		if text := log.String(); !strings.Contains(text, "dead letter") || !strings.Contains(text, "type=\"xä") || !strings.Contains(text, "ä... (50001 bytes)\" id=0") || len(text) > 5000 {
			t.Errorf("%d bytes of log: %.5000s", len(text), text)
		}
	})
}

// A call of several messages that fails as a whole is logged at once, not when the message that fails is found.
func TestFailedCallIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, done := 0, make(chan struct{})
		to := bounded{answering{func(_ context.Context, ds []*sink.Delivery) []error {
			if calls++; calls > 1 {
				if calls == 2 {
					close(done)
				}
				return nil
			}
			errs := make([]error, len(ds))
			for i := range errs {
				errs[i] = sink.Whole(sink.Unavailable(errors.New("timeout")))
			}
			return errs
		}}, sink.Limits{Batch: 10, Run: 10, Concurrency: 1}}
		var log bytes.Buffer
		r := relayOther(t, emitting(messages(10)), to, &shelf{}, func(c *relay.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		runUntil(t, r, done, time.Minute, "the next call")
		if text := log.String(); strings.Count(text, "delivery failed") != 1 || !strings.Contains(text, "class=unavailable error=timeout messages=10 ") {
			t.Errorf("log: %s", text)
		}
	})
}
