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
)

// The relay logs once who holds the lock, also if the holder is no relay: then this relay is no healthy standby.
func TestTheLocksHolderIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := []error{
			&checkpoint.LockedError{Pipeline: "a", Holder: "role relay, pid 1"},
			&checkpoint.LockedError{Pipeline: "a", Holder: "role relay, pid 1"},
			&checkpoint.LockedError{Pipeline: "a", Holder: "role mallory, pid 2", Foreign: true, Fix: "SELECT pg_terminate_backend(2)"},
		}
		var log bytes.Buffer
		var states []string
		ctx, cancel := context.WithCancel(t.Context())
		r := relayOther(t, emitting(nil), answering{}, nil, func(c *relay.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Events.State = func(state, why string) { states = append(states, state+": "+why) }
			c.Open = func(context.Context) (checkpoint.Store, error) {
				if len(held) == 0 {
					cancel()
					return nil, checkpoint.ErrLocked
				}
				err := held[0]
				held = held[1:]
				if !errors.Is(err, checkpoint.ErrLocked) {
					t.Errorf("%v is not ErrLocked", err)
				}
				return nil, err
			}
		})
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		text := strings.Join(states, "\n")
		if len(states) != 3 || !strings.HasPrefix(states[0], "standby: ") || !strings.HasPrefix(states[1], "locked out: ") ||
			!strings.Contains(text, "role relay, pid 1") || !strings.Contains(text, "role mallory, pid 2: find out what it is, and end it (SELECT pg_terminate_backend(2))") {
			t.Errorf("states:\n%s", text)
		}
		if strings.Count(log.String(), "role relay, pid 1") != 1 || strings.Count(log.String(), "role mallory, pid 2") != 1 {
			t.Errorf("log:\n%s", log.String())
		}
	})
}
