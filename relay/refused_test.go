package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	aside *int
}

func (r refusingRows) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.tries++
	for i := range s.Rows {
		if r.refuses(s.Rows[i].ID) && !s.LeaveRows {
			return nil, fmt.Errorf("the row %s is referred to: %w", s.Rows[i].ID, source.ErrStop)
		}
	}
	for i := range s.Rows {
		*r.rows = append(*r.rows, s.Rows[i].ID)
	}
	for i := range s.Park {
		if p := &s.Park[i]; p.State == checkpoint.StateDelivered && p.Sink == "out" && !p.Blocks && s.LeaveRows && s.Rows[i].Parked {
			*r.aside++
		}
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

// Some rows that the database refuses to settle are set aside, and the relay goes on. If it refuses all of them, they stop the relay, and what was
// delivered is on record, so that the next start does not deliver it again.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	const n = 1000
	for name, test := range map[string]struct {
		refuses        func(id string) bool
		settled, aside int
	}{
		"one":  {func(id string) bool { return id == "700" }, n, 1},
		"some": {func(id string) bool { return id == "3" || id == "4" || id == "999" }, n, 3},
		"all":  {func(string) bool { return true }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var rows []string
				delivered := 0
				st := refusingRows{refuses: test.refuses, mu: new(sync.Mutex), rows: &rows, saved: &checkpoint.Checkpoint{}, tries: new(int), aside: new(int)}
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
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of the bubble
				defer cancel()
				if err := r.Run(ctx); errors.Is(err, source.ErrStop) != (test.settled == 0) {
					t.Errorf("ended with %v", err)
				}
				if *st.aside != test.aside {
					t.Errorf("%d rows were set aside, want %d", *st.aside, test.aside)
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
				if past := st.saved.Resume == source.Resume(fmt.Sprint(n)); past != (test.settled == n) || !past && len(known) != n {
					t.Errorf("%d of %d deliveries are on record", len(known), n)
				}
				if *st.tries > 200 {
					t.Errorf("%d transactions", *st.tries)
				}
			})
		})
	}
}

// Rows of messages with parked deliveries that the database refuses to change are left to the store, which tries them again. They do not stop
// the relay, and what is beside them is settled once.
func TestRefusedParkedRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &refusingParked{settled: map[string]int{}, parked: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		src := &scripted{run: func(ctx context.Context, emit source.Emit) error {
			if err := emit(ctx, messages(100)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}
		to := answering{func(_ context.Context, ds []*sink.Delivery) []error {
			errs := make([]error, len(ds))
			for i, d := range ds {
				if d.Message.ID == "50" {
					errs[i] = sink.Permanent(errors.New("no"))
				}
			}
			return errs
		}}
		r := relayOther(t, src, to, st, func(c *relay.Config) { c.Kept = func(string) bool { return false } })
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		<-time.After(time.Minute) // of the bubble
		if len(st.settled) != 100 || st.parked["50"] != 1 {
			t.Errorf("%d rows are settled, %v parked", len(st.settled), st.parked)
		}
		for id, n := range st.settled {
			if n != 1 {
				t.Errorf("row %s was settled %d times", id, n)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// A refusingParked is a store that refuses to change rows of messages with parked deliveries, and leaves them if it is told to.
type refusingParked struct {
	accepting
	settled, parked map[string]int
}

func (r *refusingParked) Settle(_ context.Context, s *checkpoint.Settlement) (*checkpoint.Settled, error) {
	for i := range s.Rows {
		if s.Rows[i].Parked && !s.LeaveRows {
			return nil, fmt.Errorf("the row is referred to: %w", source.ErrStop)
		}
	}
	for i := range s.Rows {
		r.settled[s.Rows[i].ID]++
	}
	for i := range s.Park {
		r.parked[s.Park[i].Message.ID]++
	}
	out := &checkpoint.Settled{}
	if s.Checkpoint != nil {
		out.Saved = s.Checkpoint(nil) != nil
	}
	return out, nil
}
