package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// A Cause is what failures are grouped by.
type Cause string

// The causes.
const (
	ByClass Cause = "class" // of the error
	ByType  Cause = "type"  // of the message
	BySink  Cause = "sink"
)

// Bounds of a summary.
const (
	// MostFailures is how many groups it has.
	MostFailures = 500
	// mostDead is how many dead letters it counts at most, the newest. mostOthers is how many deliveries it looks at if other states are asked for: no
	// index has these, and the summary has to be ready soon.
	mostDead, mostOthers = 250_000, 30_000
)

// MostCounted bounds how many deliveries a summary of some states looks at.
func MostCounted(states []checkpoint.State) int {
	if OnlyDead(states) {
		return mostDead
	}
	return mostOthers
}

// A Failure is a group of deliveries. Of Class, Type and Sink it has those that are grouped by.
type Failure struct {
	Class, Type, Sink string // MySQL and MariaDB have the first 255 bytes of a type
	Count             int
	// First and Last are the first and the last time at which one of the deliveries came into its state.
	First, Last time.Time
	// ExampleID is the message id of one of the deliveries. Example is that delivery without its payload; nil if it is gone.
	ExampleID string
	Example   *store.Listed
}

// A Summary is failures, the most frequent first. Partial: not all deliveries were counted, or there are more groups.
type Summary struct {
	Failures []Failure
	Partial  bool
}

// Add adds a group, in the order in which a reader finds them. fits: it is of the states that are asked for. full: there may be more deliveries than the
// reader has looked at.
func (s *Summary) Add(f *Failure, fits, full bool) {
	s.Partial = s.Partial || full || fits && len(s.Failures) == MostFailures
	if fits && len(s.Failures) < MostFailures {
		s.Failures = append(s.Failures, *f)
	}
}

// OnlyDead reports whether states are that of dead letters alone.
func OnlyDead(states []checkpoint.State) bool {
	return !slices.ContainsFunc(states, func(state checkpoint.State) bool { return state != checkpoint.StateDead })
}

// Summarize counts deliveries in some states by what they have in common, with an example of each group.
func (o Operator) Summarize(ctx context.Context, states []checkpoint.State, by []Cause) (s *Summary, err error) {
	err = o.read(ctx, func(ctx context.Context, r Reader) error {
		if s, err = r.Summarize(ctx, states, by); err != nil {
			return err
		}
		return s.findExamples(ctx, r, states, by)
	})
	return s, err
}

// findExamples reads the examples by their ids.
func (s *Summary) findExamples(ctx context.Context, r Reader, states []checkpoint.State, by []Cause) error {
	ids := make([]string, len(s.Failures))
	for i := range s.Failures {
		ids[i] = s.Failures[i].ExampleID
	}
	if len(ids) == 0 {
		return nil
	}
	found, _, err := listParked(ctx, r, checkpoint.Selection{IDs: ids, States: states}, 0, false)
	if err != nil {
		return err
	}
	for i := range s.Failures {
		f := &s.Failures[i]
		if at := slices.IndexFunc(found, func(l store.Listed) bool { return f.has(&l, by) }); at >= 0 {
			f.Example = &found[at]
		}
	}
	return nil
}

// has reports whether a delivery is the group's example. The group may have the beginning of a long type only.
func (f *Failure) has(l *store.Listed, by []Cause) bool {
	return l.RowID() == f.ExampleID && (!slices.Contains(by, ByClass) || l.ErrorClass == f.Class) &&
		(!slices.Contains(by, ByType) || strings.HasPrefix(l.Message.Type, f.Type)) && (!slices.Contains(by, BySink) || l.Sink == f.Sink)
}

// A Span is a time: from Since on, and before Until. A zero time is no bound.
type Span struct{ Since, Until time.Time }

// A DeadKey is the place of a dead letter in the order in which they died.
type DeadKey struct {
	At    time.Time `json:"at"`
	ID    string    `json:"id"`
	Table string    `json:"table"`
	Sink  string    `json:"sink"`
}

// Compare tells which of two comes first in the order in which they died.
func (k *DeadKey) Compare(o *DeadKey) int {
	return cmp.Or(k.At.Compare(o.At), cmp.Compare(k.ID, o.ID), cmp.Compare(k.Table, o.Table), cmp.Compare(k.Sink, o.Sink))
}

// A DeadRow is a dead letter that was looked at. Matches: it is among those that the selection narrows down to.
type DeadRow struct {
	store.SelectedRow
	At      time.Time
	Matches bool
}

// Place is where the dead letter stands.
func (r *DeadRow) Place() DeadKey { return DeadKey{At: r.At, ID: r.ID, Table: r.Table, Sink: r.Sink} }

// Newest lists dead letters as Page does, but the one that died last first. Of the selection, states and limit do not count.
func (o Operator) Newest(ctx context.Context, sel checkpoint.Selection, during Span, after *DeadKey, limit int) (list []store.Listed, next *DeadKey, err error) {
	err = o.read(ctx, func(ctx context.Context, r Reader) error {
		rows, place, err := newest(ctx, r, &sel, during, after, limit)
		if err != nil {
			return err
		}
		next = place
		list, err = r.Listed(ctx, rows, false)
		return err
	})
	return list, next, err
}

// AllNewest lists dead letters as Parked does, but those that died within a time, the one that died last first.
func (o Operator) AllNewest(ctx context.Context, sel checkpoint.Selection, during Span, limit int) (list []store.Listed, more bool, err error) {
	err = o.read(ctx, func(ctx context.Context, r Reader) error {
		var after *DeadKey
		for {
			page := listedAtOnce
			if limit > 0 {
				page = min(page, limit-len(list))
			}
			rows, next, err := newest(ctx, r, &sel, during, after, page)
			if err != nil {
				return err
			}
			found, err := r.Listed(ctx, rows, false)
			if err != nil {
				return err
			}
			list = append(list, found...)
			if after, more = next, next != nil; !more || limit > 0 && len(list) >= limit {
				return nil
			}
		}
	})
	return list, more, err
}

// listedAtOnce is how many deliveries a list reads at once.
const listedAtOnce = 1000

func newest(ctx context.Context, r Reader, sel *checkpoint.Selection, during Span, after *DeadKey, limit int) (rows []store.SelectedRow, next *DeadKey, err error) {
	look := store.ScanChunk
	if !sel.Narrows() {
		look = limit // all of them match
	}
	for range pageLooks {
		seen, err := r.Newest(ctx, sel, during, after, look)
		if err != nil {
			return nil, nil, err
		}
		for i := range seen {
			place := seen[i].Place()
			after = &place
			if !seen[i].Matches {
				continue
			}
			if rows = append(rows, seen[i].SelectedRow); len(rows) == limit {
				if i == len(seen)-1 && len(seen) < look {
					return rows, nil, nil
				}
				return rows, after, nil
			}
		}
		if len(seen) < look {
			return rows, nil, nil
		}
	}
	return rows, after, nil
}
