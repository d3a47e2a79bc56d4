package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Of several changes for one delivery the last one counts, where it stands.
func TestLastChanges(t *testing.T) {
	t.Parallel()
	change := func(sink, id string, attempts int) checkpoint.Change {
		return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: "t", ID: id}, Group: "g" + id, Attempts: attempts, Supersede: attempts > 2, Delivered: attempts > 4}
	}
	changes := []checkpoint.Change{change("a", "1", 1), change("b", "1", 2), change("a", "1", 3), change("a", "2", 4), change("b", "1", 5)}
	var got []int
	for _, c := range store.LastChanges(changes) {
		got = append(got, c.Attempts)
	}
	equal(t, "changes", got, []int{3, 4, 5})
	super := store.Superseding(store.LastChanges(changes))
	equal(t, "superseding", super.Order, []checkpoint.Lane{{Sink: "a", Group: "g1"}, {Sink: "a", Group: "g2"}})
}

// What happens in a lane without a sink concerns its group's lanes at every sink.
func TestSpread(t *testing.T) {
	t.Parallel()
	var lanes store.LaneSet
	for _, lane := range []checkpoint.Lane{{Sink: "a", Group: "g"}, {Group: "g"}, {Group: "h"}, {Sink: "a"}} {
		lanes.Add(lane)
	}
	lanes.Spread(map[string]bool{"a": true})
	equal(t, "lanes", lanes.Order, []checkpoint.Lane{{Sink: "a", Group: "g"}, {Group: "g"}, {Group: "h"}, {Sink: "a", Group: "h"}})
}

func TestReport(t *testing.T) {
	t.Parallel()
	lane := func(group string) checkpoint.Lane { return checkpoint.Lane{Sink: "a", Group: group} }
	lanes := []checkpoint.Lane{lane("open"), lane("held"), lane("everywhere"), lane("next"), lane("later"), lane("unchanged")}
	changed := map[checkpoint.Lane]int{}
	for _, l := range lanes[:5] {
		changed[l] = 1
	}
	var out checkpoint.Settled
	store.ReportLanes(&out, lanes, []store.LaneState{{}, {}, {}, {Blocked: true, Due: true}, {Blocked: true}, {}}, changed,
		store.HeldLanes{lane("held"): true, {Group: "everywhere"}: true})
	equal(t, "open", out.Open, lanes[:1])
	equal(t, "next", out.Next, lanes[3:4])
}

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
		gap, err := store.FindGap(t.Context(), func(context.Context) (*checkpoint.Checkpoint, error) {
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

// A request is waited for while a relay runs, and carried out where none does.
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
		result, err := store.Wait(ctx, 1, func(context.Context) (*store.RequestResult, bool, error) {
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
