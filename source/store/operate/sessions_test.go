package operate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/source/store"
)

// A place counts the sessions that are open.
type place struct {
	mu          sync.Mutex
	opened, now int
	lost        bool
}

// visit is one session.
type visit struct {
	Reader
	at   *place
	left bool
}

func (p *place) read(context.Context) (Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	p.now++
	return &visit{at: p}, nil
}

func (v *visit) Begin(ctx context.Context) (context.Context, error) {
	v.at.mu.Lock()
	defer v.at.mu.Unlock()
	if v.at.lost && v.at.now > 0 && v.at.opened == 1 {
		return nil, errors.New("the session is gone")
	}
	return ctx, nil
}

func (v *visit) Leave(context.Context) error {
	v.at.mu.Lock()
	defer v.at.mu.Unlock()
	if v.left {
		panic("left twice")
	}
	v.left = true
	v.at.now--
	return nil
}

func (v *visit) Progress(context.Context, int64) (*store.RequestResult, bool, error) {
	if v.left {
		panic("asked after it was left")
	}
	return nil, false, nil
}

// counts are how many sessions were opened, and are open.
func (p *place) counts() [2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]int{p.opened, p.now}
}

func TestKeepSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := &place{}
		o := Operator{Read: at.read}.KeepSessions()
		want := func(opened, now int, when string) {
			t.Helper()
			if got := at.counts(); got != [2]int{opened, now} {
				t.Errorf("%s: %d opened, %d open; want %d, %d", when, got[0], got[1], opened, now)
			}
		}
		for range 100 {
			if _, _, err := o.Result(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			<-time.After(99 * time.Millisecond)
		}
		want(1, 1, "100 questions in 9.9 s")
		<-time.After(time.Second)
		want(1, 0, "after 10 s")

		if _, _, err := o.Result(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		want(2, 1, "the next question")
		if err := o.read(t.Context(), func(context.Context, Reader) error { return errors.New("refused") }); err == nil {
			t.Error("no error")
		}
		want(2, 0, "a question that failed")

		// A question that takes longer than a session is kept.
		if err := o.read(t.Context(), func(context.Context, Reader) error { <-time.After(keptFor + time.Second); return nil }); err != nil {
			t.Error(err)
		}
		want(3, 0, "a long question")

		// Many at once: each has its own, and none outlives keptFor.
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 50 {
					if err := o.read(t.Context(), func(context.Context, Reader) error { <-time.After(300 * time.Millisecond); return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		<-time.After(keptFor)
		if got := at.counts(); got[1] != 0 || got[0] > 3+3*20 {
			t.Errorf("20 clients for 15 s: %d opened, %d open", got[0], got[1])
		}
	})
}

// A session that was lost while it waited is replaced.
func TestLostSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := &place{}
		o := Operator{Read: at.read}.KeepSessions()
		for range 2 {
			if _, _, err := o.Result(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			at.lost = true
		}
		if got := at.counts(); got != [2]int{2, 1} {
			t.Errorf("%d opened, %d open", got[0], got[1])
		}
		<-time.After(2 * keptFor)
	})
}
