package notify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/internal/alert/notify"
	"github.com/tailbox/tailbox/sink"
)

// A place that alerts are sent to. It answers by a function, and notes what it took and when.
type place struct {
	answer func(ctx context.Context) error
	began  time.Time
	tries  []time.Duration
	ids    []string // of all tries
	took   []string
}

func (p *place) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	p.tries = append(p.tries, time.Since(p.began))
	p.ids = append(p.ids, ds[0].Message.ID)
	if err := p.answer(ctx); err != nil {
		return []error{err}
	}
	for _, d := range ds {
		p.took = append(p.took, string(d.Value))
	}
	return nil
}

func (*place) Limits() sink.Limits         { return sink.Limits{} }
func (*place) Close(context.Context) error { return nil }

// taking takes everything.
func taking(context.Context) error { return nil }

// refusing fails n times.
func refusing(n int, err error) func(context.Context) error {
	return func(context.Context) error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

func message(c alert.Condition, name string, kind alert.Kind) alert.Message {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return alert.Message{Key: alert.Key{Condition: c, Sink: name}, Kind: kind, At: now, Since: now.Add(-time.Minute), Until: now}
}

// sending runs a sender of places with kinds, and returns how to stop it.
func sending(ctx context.Context, log io.Writer, kind string, places ...*place) (s *notify.Sender, stop func()) {
	c := notify.Config{Place: alert.Place{Pipeline: "shop"}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Hide: func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }}
	for i, p := range places {
		p.began = time.Now()
		c.To = append(c.To, notify.Recipient{Name: fmt.Sprint("to", i), Kind: kind, Sink: p})
	}
	ctx, cancel := context.WithCancel(ctx)
	s = notify.New(c)
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return s, func() { cancel(); <-done }
}

// What cannot be sent is tried later and later, and its text says nothing secret in the log.
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := &place{answer: refusing(4, sink.Unavailable(errors.New("password hunter2")))}
		s, stop := sending(t.Context(), &log, "http", p)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired)})
		<-time.After(time.Minute)
		stop()
		if got, want := fmt.Sprint(p.tries), "[0s 1s 3s 7s 15s]"; got != want || len(p.took) != 1 {
			t.Errorf("tries %s, want %s; took %q", got, want, p.took)
		}
		if strings.Contains(log.String(), "hunter2") || strings.Count(log.String(), "trying again") != 4 {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// The sink says how long to wait.
func TestThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{answer: refusing(1, sink.Throttled(errors.New("slow down"), 30*time.Second))}
		s, stop := sending(t.Context(), io.Discard, "http", p)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired)})
		<-time.After(time.Minute)
		stop()
		if got := fmt.Sprint(p.tries); got != "[0s 30s]" {
			t.Errorf("tries %s", got)
		}
	})
}

// While nothing can be sent, an alert waits once: the newest of its messages counts. Others come in their order.
func TestCoalesce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{answer: refusing(1, errors.New("down"))}
		s, stop := sending(t.Context(), io.Discard, "http", p)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired), message(alert.DeadLetters, "b", alert.Fired)})
		synctest.Wait()
		for range 1000 {
			s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Repeated), message(alert.Lag, "", alert.Fired)})
		}
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Over)})
		<-time.After(time.Minute)
		stop()
		if got := strings.Join(p.took, "\n"); len(p.took) != 3 || strings.Count(got, `"state":"over"`) != 1 || strings.Count(got, `"alert":"lag"`) != 1 || strings.Contains(got, "repeated") {
			t.Errorf("took\n%s", got)
		}
	})
}

// A text holds several alerts, and not more than people read.
func TestOneText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{answer: taking}
		s, stop := sending(t.Context(), io.Discard, "slack", p)
		var many []alert.Message
		for i := range 60 {
			many = append(many, message(alert.DeadLetters, fmt.Sprintf("sink%d", i), alert.Fired))
		}
		s.Send(many)
		synctest.Wait()
		stop()
		if got := strings.Join(p.took, "\n"); len(p.took) != 1 || strings.Count(got, "dead letters at sink") != 20 || !strings.Contains(got, "And 40 more") {
			t.Errorf("took\n%s", got)
		}
	})
}

// A text that is sent again keeps its id, by which a receiver drops it. If another alert has joined it meanwhile, it is another text.
func TestIDOfText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{answer: refusing(3, errors.New("the answer was lost"))}
		s, stop := sending(t.Context(), io.Discard, "smtp", p)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired)})
		<-time.After(2 * time.Second) // two tries
		s.Send([]alert.Message{message(alert.DeadLetters, "b", alert.Fired)})
		<-time.After(time.Minute)
		stop()
		if len(p.ids) != 4 || p.ids[0] != p.ids[1] || p.ids[1] == p.ids[2] || p.ids[2] != p.ids[3] {
			t.Errorf("ids %q", p.ids)
		}
	})
}

// What is refused for good is given up, and what follows is sent. A recipient that hangs holds no other up, and does not outlive the end.
func TestRefusedAndHung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		strict := &place{answer: refusing(1, sink.Permanent(errors.New("no such field")))}
		hung := &place{answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		s, stop := sending(t.Context(), &log, "http", strict, hung)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired), message(alert.DeadLetters, "b", alert.Fired)})
		synctest.Wait()
		if len(strict.took) != 1 || !strings.Contains(log.String(), "refused for good") {
			t.Errorf("took %q\n%s", strict.took, log.String())
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		if !strings.Contains(log.String(), "alerts are not sent yet") {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// What is sent right before the end arrives.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{answer: taking}
		s, stop := sending(t.Context(), io.Discard, "smtp", p)
		s.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Left)})
		stop()
		if got := strings.Join(p.took, "\n"); len(p.took) != 1 || !strings.Contains(got, `"subject":"[tailbox shop] not watched now: 0 dead letters at sink a"`) {
			t.Errorf("took\n%s", got)
		}
	})
}

// What one configuration could not send, the next one sends: to the recipient of that name, and to all if there is none of it any more.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := sink.Unavailable(errors.New("away"))
		works, fails := &place{answer: taking}, &place{answer: refusing(1000, away)}
		before, stop := sending(t.Context(), io.Discard, "http", works, fails)
		before.Send([]alert.Message{message(alert.DeadLetters, "a", alert.Fired)})
		<-time.After(time.Minute)
		stop()
		works, mended := &place{answer: taking}, &place{answer: refusing(1000, away)}
		after, stop := sending(t.Context(), io.Discard, "http", works, mended)
		after.TakeOver(before)
		<-time.After(time.Minute)
		stop()
		if len(works.took) != 0 || len(mended.tries) == 0 {
			t.Errorf("who had it got it again: %q; the other was tried %d times", works.took, len(mended.tries))
		}
		only := &place{answer: taking}
		last, stop := sending(t.Context(), io.Discard, "http", only)
		last.TakeOver(after)
		<-time.After(time.Minute)
		stop()
		if len(only.took) != 1 {
			t.Errorf("took %q", only.took)
		}
	})
}
