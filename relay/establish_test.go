package relay_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// fresh is a store of a pipeline that never ran. Its session ends if it is silent for 10 s.
type fresh struct {
	accepting
	heard time.Time
	lost  bool
}

func (s *fresh) listen() {
	s.lost = s.lost || !s.heard.IsZero() && time.Since(s.heard) >= 10*time.Second
	s.heard = time.Now()
}

func (s *fresh) Load(context.Context) (*checkpoint.Loaded, error) {
	s.listen()
	return &checkpoint.Loaded{SourceID: "s"}, nil
}

func (s *fresh) Ping(context.Context) (time.Time, error) {
	s.listen()
	return time.Time{}, nil
}

func (s *fresh) Save(context.Context, *checkpoint.Checkpoint) error {
	s.listen()
	return nil
}

// slow is a source whose position takes a minute to make, and another to judge.
type slow struct{ *scripted }

func (slow) Establish(context.Context) (source.Snapshot, error) {
	<-time.After(time.Minute)
	return slowSnapshot{}, nil
}

type slowSnapshot struct{ source.Snapshot }

func (slowSnapshot) Resume() source.Resume       { return "1" }
func (slowSnapshot) Close(context.Context) error { return nil }

func (slowSnapshot) Judge(context.Context, source.Known) (bool, error) {
	<-time.After(time.Minute)
	return false, nil
}

// The store's session is kept while a position is made and judged, however long that takes.
func TestSlowPositionKeepsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, delivered := &fresh{}, make(chan struct{})
		to := answering{func(context.Context, []*sink.Delivery) []error {
			close(delivered)
			return nil
		}}
		runUntil(t, relayWith(t, slow{emitting(messages(1))}, to, store, 0), delivered, 5*time.Minute, "the message arrives")
		if store.lost {
			t.Error("the store's session was lost")
		}
	})
}

// pendingSource is a source with pending rows.
type pendingSource struct{ *scripted }

func (pendingSource) Establish(context.Context) (source.Snapshot, error) {
	return pendingSnapshot{}, nil
}

type pendingSnapshot struct{ source.Snapshot }

func (pendingSnapshot) Resume() source.Resume                             { return "2" }
func (pendingSnapshot) Judge(context.Context, source.Known) (bool, error) { return true, nil }

// A position that `tailbox init` has made, and of which no sweep has begun, looks like one whose sweep was broken off: the log says what
// is true of both.
func TestFirstSweepIsNotCalledRepeated(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	made := checkpoint.Checkpoint{SourceID: "s", Resume: "1", Log: 1, SweepPending: true}
	p, err := relay.Establish(t.Context(), pendingSource{emitting()}, &fresh{}, &checkpoint.Loaded{SourceID: "s", Checkpoint: &made}, slog.New(slog.NewTextHandler(&b, nil)))
	if err != nil || p.Snapshot == nil || !p.Checkpoint.SweepPending || p.Checkpoint.Log != 2 {
		t.Fatalf("position %+v, %v", p, err)
	}
	if text := b.String(); strings.Contains(text, "repeat") || !strings.Contains(text, "pending rows have not been swept to the end: sweeping them at a new position") {
		t.Errorf("log: %s", text)
	}
}
