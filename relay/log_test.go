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
