package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source"
)

// A fake is a session whose table is at a number. Each of its answers may be an error.
type fake struct {
	last   uint64
	series string
	err    error // of Numbers and Snapshot
	closed int
}

func (f *fake) String() string                                                           { return "shop.outbox" }
func (f *fake) Last(context.Context) (uint64, string, error)                             { return f.last, f.series, nil }
func (f *fake) WentBack(at, last uint64) string                                          { return fmt.Sprintf("%d after %d", last, at) }
func (f *fake) Close(context.Context) error                                              { f.closed++; return nil }
func (f *fake) Snapshot(context.Context, uint64) (Snapshot, error)                       { return nil, f.err }
func (f *fake) Rows(context.Context, uint64, uint64, int, func(Row) (bool, error)) error { return nil }
func (f *fake) Numbers(context.Context, uint64, int) (*Numbers, error) {
	return &Numbers{Drawn: f.last, Series: f.series}, f.err
}
func (f *fake) Holders(context.Context) ([]Holder, bool, time.Duration, error) {
	return nil, true, 0, nil
}

// errChanged is what a server says of a table that is not what it was.
var errChanged = errors.New("no such table")

// sourceOn is a source whose sessions are those given, one after the other; nil is a table that cannot be polled any more.
func sourceOn(sessions ...*fake) *Source {
	s := NewSource(func(context.Context) (Session, error) {
		next := sessions[0]
		sessions = sessions[1:]
		if next == nil {
			return nil, fmt.Errorf("it is gone: %w", source.ErrStop)
		}
		return next, nil
	}, func(err error) bool { return errors.Is(err, errChanged) }, slog.New(slog.DiscardHandler))
	return &s
}

// A checkpoint is of no use at another server, in another series, or if the table is not that far.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, elsewhere, want string }{
		{"7 a", "", ""},
		{"7", "", ""},
		{"7 a", "another server", "another server"},
		{"7 b", "", Anew(7, "b", "a")},
		{"9 b", "", "8 after 9"},
		{"0/1234", "another server", "the checkpoint 0/1234 was made when source.read was log: now the table is polled"},
	} {
		if got, err := Lost(t.Context(), &fake{last: 8, series: "a"}, source.Resume(c.from), c.elsewhere); got != c.want || err != nil {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	if why := OfLog("7 a"); !strings.Contains(why, "source.read was poll") || OfLog("0/1234") != "" {
		t.Errorf("a checkpoint of polling: %q; of the log: %q", why, OfLog("0/1234"))
	}
}

// If the table changed, the source tells what an operator has to do, if anything, and leaves no session behind.
func TestRunLooksAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		again *fake
		want  error
	}{
		"another error":   {errors.New("broken"), nil, nil},
		"there again":     {errChanged, &fake{}, errChanged},
		"gone for good":   {errChanged, nil, source.ErrStop},
		"reading goes on": {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{last: 7, err: c.err}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := sourceOn(f, c.again).Run(ctx, source.Start{From: "7", Reading: cancel}, func(context.Context, *source.Batch) error { return nil })
			want := c.want
			if want == nil {
				want = c.err
			}
			if !errors.Is(err, want) || f.closed != 1 || c.again != nil && c.again.closed != 1 {
				t.Errorf("got %v, want %v; closed %d times", err, want, f.closed)
			}
		})
	}
}

// A position is the last number and its series. If the snapshot fails, the session is closed.
func TestEstablish(t *testing.T) {
	t.Parallel()
	f := &fake{last: 7, series: "a"}
	snap, err := sourceOn(f).Establish(t.Context())
	if err != nil || snap.Resume() != "7 a" || f.closed != 0 {
		t.Errorf("%v, closed %d times: %+v", err, f.closed, snap)
	}
	f = &fake{last: 7, err: errChanged}
	if _, err := sourceOn(f).Establish(t.Context()); !errors.Is(err, errChanged) || f.closed != 1 {
		t.Errorf("got %v, closed %d times", err, f.closed)
	}
	if _, err := sourceOn(nil).Establish(t.Context()); !errors.Is(err, source.ErrStop) {
		t.Errorf("got %v", err)
	}
}
