package relay

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// steady is a source that can always be read on.
type steady struct{ source.Source }

func (steady) Examine(context.Context, string, source.Resume) (*source.Examined, error) {
	return &source.Examined{SourceID: "s"}, nil
}

// clocked is a store whose database has a clock.
type clocked struct {
	checkpoint.Store
	now   time.Time
	saved *checkpoint.Checkpoint
}

func (c *clocked) Ping(context.Context) (time.Time, error) { return c.now, nil }

func (c *clocked) Save(_ context.Context, cp *checkpoint.Checkpoint) error {
	c.saved = cp
	return nil
}

// A database that was set back gives ordinals a second time. Positions stay unique, even if it has forgotten several Logs.
func TestDatabaseSetBack(t *testing.T) {
	t.Parallel()
	at := func(log uint32, commit uint64) checkpoint.Checkpoint {
		return checkpoint.Checkpoint{SourceID: "s", Resume: "r", Log: log, LastCommit: commit}
	}
	above := at(3, 40)
	above.SettledAbove = map[string][]checkpoint.Range{"*": {{First: outbox.Position{Log: 3, Commit: 41}, Last: outbox.Position{Log: 3, Commit: 50}}}}
	for _, test := range []struct {
		name         string
		saved, found checkpoint.Checkpoint
		now          int64
		want         uint32
	}{
		{"nothing is known of before", checkpoint.Checkpoint{}, at(3, 40), 1000, 3},
		{"as it was saved", at(3, 40), at(3, 40), 1000, 3},
		{"another relay went on", at(3, 40), at(3, 90), 1000, 3},
		{"another relay established a position", at(3, 40), at(7, 0), 1000, 7},
		{"commits are forgotten", at(3, 60), above, 1000, 1000},
		{"a log is forgotten", at(900, 10), at(3, 40), 1000, 1000},
		{"the clock was set back, too", at(2000, 10), at(3, 40), 1000, 2001},
	} {
		store := &clocked{now: time.Unix(test.now, 0)}
		p, err := establish(t.Context(), steady{}, store, &checkpoint.Loaded{Checkpoint: &test.found}, termMemory{saved: test.saved},
			slog.New(slog.DiscardHandler))
		if err != nil || p.Checkpoint.Log != test.want || p.Checkpoint.Resume != "r" || p.Checkpoint.LastCommit != test.found.LastCommit {
			t.Errorf("%s: position %+v, %v, want Log %d", test.name, p, err, test.want)
			continue
		}
		if changed := test.want != test.found.Log; changed != (store.saved != nil) {
			t.Errorf("%s: saved %v", test.name, store.saved)
		}
		for _, r := range p.Checkpoint.SettledAbove["*"] {
			if r.First != (outbox.Position{Log: test.want, Commit: 41}) || r.Last != (outbox.Position{Log: test.want, Commit: 50}) {
				t.Errorf("%s: settled above %+v", test.name, r)
			}
		}
	}
}
