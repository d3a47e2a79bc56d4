package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A refusingRows is a store that refuses to settle some rows, and keeps what it was told.
type refusingRows struct {
	accepting
	refuses func(id string) bool

	mu    *sync.Mutex
	rows  *[]string
	saved *checkpoint.Checkpoint
	tries *int
}

func (r refusingRows) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.tries++
	for i := range s.Rows {
		if r.refuses(s.Rows[i].ID) {
			return nil, fmt.Errorf("the row %s is referred to: %w", s.Rows[i].ID, source.ErrStop)
		}
	}
	for i := range s.Rows {
		*r.rows = append(*r.rows, s.Rows[i].ID)
	}
	out := &checkpoint.Settled{}
	if s.Checkpoint != nil {
		if cp := s.Checkpoint(nil); cp != nil {
			*r.saved, out.Saved = *cp, true
		}
	}
	return out, nil
}

func (r refusingRows) Save(_ context.Context, cp *checkpoint.Checkpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.saved = *cp
	return nil
}

// Rows that the database refuses to settle stop the relay. The others are settled, and what was delivered is on record, so that the next
// start does not deliver it again.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	const n = 1000
	for name, test := range map[string]struct {
		refuses func(id string) bool
		settled int
	}{
		"one":  {func(id string) bool { return id == "700" }, n - 1},
		"some": {func(id string) bool { return id == "3" || id == "4" || id == "999" }, n - 3},
		"all":  {func(string) bool { return true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var rows []string
				delivered := 0
				st := refusingRows{refuses: test.refuses, mu: new(sync.Mutex), rows: &rows, saved: &checkpoint.Checkpoint{}, tries: new(int)}
				src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
					if err := emit(ctx, messages(n)); err != nil {
						return err
					}
					<-ctx.Done()
					return nil
				}}
				to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
					st.mu.Lock()
					defer st.mu.Unlock()
					delivered += len(ds)
					return nil
				}}
				r := relayOther(t, src, to, st, func(c *relay.Config) { c.Kept = func(string) bool { return false } })
				if err := r.Run(t.Context()); !errors.Is(err, source.ErrStop) {
					t.Errorf("ended with %v", err)
				}
				slices.Sort(rows)
				if got := len(slices.Compact(slices.Clone(rows))); got != test.settled || len(rows) != got {
					t.Errorf("%d rows were settled, %d of them once, want %d", len(rows), got, test.settled)
				}
				if delivered != n {
					t.Errorf("%d deliveries, want %d", delivered, n)
				}
				known := map[uint32]bool{}
				for _, of := range []string{checkpoint.Whole, "out"} {
					for _, r := range st.saved.SettledAbove[of] {
						for i := r.First.N; i <= r.Last.N; i++ {
							known[i] = true
						}
					}
				}
				if len(known) != n {
					t.Errorf("%d of %d deliveries are on record", len(known), n)
				}
				if *st.tries > 200 {
					t.Errorf("%d transactions", *st.tries)
				}
			})
		})
	}
}
