package operate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A gap that is there because the checkpoint moved while it was looked at is none.
func TestFindGap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		saved []string // resume of the checkpoint, read after read; "" = none; "!" = its sweep has not ended
		lost  map[string]string
		want  string
		fails bool
	}{
		"none":               {saved: []string{""}, fails: true},
		"goes on":            {saved: []string{"5"}},
		"lost":               {saved: []string{"5", "5"}, lost: map[string]string{"5": "purged"}, want: "5 purged"},
		"moved":              {saved: []string{"5", "6"}, lost: map[string]string{"5": "purged"}},
		"moved, and lost":    {saved: []string{"5", "6", "6"}, lost: map[string]string{"5": "a", "6": "b"}, want: "6 b"},
		"moves all the time": {saved: []string{"1", "2", "3", "4", "5", "6"}, lost: map[string]string{"1": "a", "2": "a", "3": "a", "4": "a", "5": "a", "6": "a"}},
		"removed":            {saved: []string{"5", ""}, lost: map[string]string{"5": "purged"}, fails: true},
		"sweep":              {saved: []string{"5!", "5!"}, want: "5! pending rows have not been swept to the end"},
	} {
		reads := 0
		gap, err := FindGap(t.Context(), func(context.Context) (*checkpoint.Checkpoint, error) {
			at := c.saved[min(reads, len(c.saved)-1)]
			reads++
			if at == "" {
				return nil, nil
			}
			return &checkpoint.Checkpoint{Resume: source.Resume(at), SweepPending: at[len(at)-1] == '!'}, nil
		}, func(_ context.Context, _ string, from source.Resume) (*source.Examined, error) {
			return &source.Examined{Lost: c.lost[string(from)]}, nil
		})
		got := ""
		if gap != nil {
			got = string(gap.From) + " " + gap.Why
		}
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// Wait waits for a request while a relay runs, and carries it out if none does.
func TestWait(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	for name, c := range map[string]struct {
		doneAfter int // calls of read
		execute   error
		want      string
		fails     error
	}{
		"done already":       {doneAfter: 1, want: "done"},
		"by a relay":         {doneAfter: 3, execute: checkpoint.ErrLocked, want: "done"},
		"without a relay":    {doneAfter: 2, want: "done"},
		"accept-gap":         {doneAfter: 99, want: "left"},
		"cannot be executed": {doneAfter: 99, execute: errBroken, fails: errBroken},
		"given up":           {doneAfter: 99, execute: checkpoint.ErrLocked, fails: context.DeadlineExceeded},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if errors.Is(c.fails, context.DeadlineExceeded) {
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		}
		reads := 0
		result, err := Wait(ctx, 1, func(context.Context) (*store.RequestResult, bool, error) {
			reads++
			return &store.RequestResult{Note: "done"}, reads >= c.doneAfter, nil
		}, func(context.Context) error { return c.execute })
		cancel()
		got := ""
		switch {
		case err != nil:
		case result == nil:
			got = "left"
		default:
			got = result.Note
		}
		if got != c.want || !errors.Is(err, c.fails) {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, c.want, c.fails)
		}
	}
}
