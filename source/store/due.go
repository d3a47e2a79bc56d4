package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// A DuePart is a part of what is due.
type DuePart int

// Parts of what is due. A probe takes Untried before Tried.
const (
	AllDue DuePart = iota
	Untried
	Tried
)

// PriorityWindow is how many due deliveries of a sink, those due longest, are compared by priority or by the time of the last try.
const PriorityWindow = 2048

// Window is how many due deliveries of a sink the store reads to pick limit of them. It is more than limit only if a table has priorities, or for a
// probe, which compares by more than one column.
func (p DuePart) Window(tables []*outbox.Table, limit int) int {
	if p != AllDue {
		return max(limit, PriorityWindow)
	}
	for _, t := range tables {
		if t.Columns.Priority != "" {
			return max(limit, PriorityWindow)
		}
	}
	return limit
}

// A ParkedRef names a parked delivery, with what is known of it without its message.
type ParkedRef struct {
	checkpoint.Key
	Position string
	Priority int32
	// Next is when it is due, TriedAt when it was tried last.
	Next, TriedAt time.Time
	// Bytes of its payload.
	Bytes int
	Dead  bool
	// Ref is what else a store knows the delivery by; only that store looks at it.
	Ref any
}

// A ParkedReader reads parked deliveries: the statements behind Due and Page.
type ParkedReader interface {
	// DueRefs lists what is due at each of the sinks, those that have been due longest first, at most window of each, and how long it is
	// until the next one is due; below 0 = none is scheduled.
	DueRefs(ctx context.Context, part DuePart, sinks []string, window int) (due [][]ParkedRef, next time.Duration, err error)
	// LaneRefs lists the blocking deliveries of a lane after a position, in order, at most limit; unrouted is its group's first position at the sink
	// "", or "".
	LaneRefs(ctx context.Context, lane checkpoint.Lane, after string, limit int) (refs []ParkedRef, unrouted string, err error)
	// Whole reads deliveries, in any order.
	Whole(ctx context.Context, refs []ParkedRef) ([]checkpoint.Parked, error)
	// ReadRow is a RowReader.
	ReadRow(ctx context.Context, table, id string) ([]*outbox.Message, error)
}

// Due is Due of checkpoint.Store, for those sinks of the query that have parked deliveries. A probe is asked part by part, until there are
// Limit deliveries, or a part was cut short. If Limit or Bytes cut the answer short, the next one is due at once: 1 ms.
func Due(ctx context.Context, db ParkedReader, tables []*outbox.Table, sinks []string, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	parts := []DuePart{AllDue}
	if q.Probe {
		parts = []DuePart{Untried, Tried}
	}
	var ps []checkpoint.Parked
	next, cut := time.Duration(-1), false
	for _, part := range parts {
		left := q.Limit - len(ps)
		if cut || left <= 0 || len(sinks) == 0 {
			break
		}
		due, at, err := db.DueRefs(ctx, part, sinks, part.Window(tables, left+min(q.Lanes, len(q.Except))))
		if err != nil {
			return nil, 0, err
		}
		if at >= 0 && (next < 0 || at < next) {
			next = at
		}
		var picked []ParkedRef
		for i := range due {
			due[i] = slices.DeleteFunc(due[i], func(r ParkedRef) bool { return q.Except[r.Key] })
		}
		if picked, cut = part.pick(due, left, q.Bytes); len(picked) == 0 {
			continue
		}
		found, err := db.Whole(ctx, picked)
		if err != nil {
			return nil, 0, err
		}
		part.arrange(found, picked)
		ps = append(ps, found...)
	}
	ps, again, err := Complete(ctx, ps, false, q.Bytes, db.ReadRow)
	return ps, NextLook(cut, again, next), err
}

// compare tells which of two due deliveries is taken first.
func (p DuePart) compare(a, b *ParkedRef) int {
	if p == Tried {
		return cmp.Or(a.TriedAt.Compare(b.TriedAt), a.Next.Compare(b.Next), cmp.Compare(a.Position, b.Position))
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Next.Compare(b.Next), cmp.Compare(a.Position, b.Position))
}

// pick takes due deliveries round-robin over the sinks. So a sink with many due lanes, or with large messages, does not crowd out another one. The
// sinks share bytes of payload equally; each sink's first delivery is taken whatever its size. cut: some deliveries are left out, or may be.
func (p DuePart) pick(due [][]ParkedRef, limit, bytes int) (picked []ParkedRef, cut bool) {
	share := bytes / max(len(due), 1)
	taken := make([]int, len(due))
	for i := range due {
		slices.SortStableFunc(due[i], func(a, b ParkedRef) int { return p.compare(&a, &b) })
	}
	for turn := 0; ; turn++ {
		var round []int
		for i := range due {
			if turn < len(due[i]) {
				round = append(round, i)
			}
		}
		if len(round) == 0 {
			return picked, cut || len(picked) == limit
		}
		slices.SortStableFunc(round, func(a, b int) int { return p.compare(&due[a][turn], &due[b][turn]) })
		for _, i := range round {
			switch {
			case len(picked) == limit:
				return picked, true
			case taken[i] > 0 && taken[i]+due[i][turn].Bytes > share:
				taken[i], cut = share+1, true // nothing smaller overtakes it
				continue
			}
			taken[i] += max(due[i][turn].Bytes, 1)
			picked = append(picked, due[i][turn])
		}
	}
}

// arrange brings deliveries into the order of the answer.
func (p DuePart) arrange(ps []checkpoint.Parked, picked []ParkedRef) {
	if p != Tried {
		slices.SortFunc(ps, func(a, b checkpoint.Parked) int {
			return cmp.Or(cmp.Compare(b.Message.Priority, a.Message.Priority), comparePlaces(&a, &b))
		})
		return
	}
	place := make(map[checkpoint.Key]int, len(picked))
	for i := range picked {
		place[picked[i].Key] = i
	}
	slices.SortFunc(ps, func(a, b checkpoint.Parked) int { return place[a.Key()] - place[b.Key()] })
}

func comparePlaces(a, b *checkpoint.Parked) int {
	return cmp.Or(a.Message.Position.Compare(b.Message.Position), cmp.Compare(a.RowID(), b.RowID()), cmp.Compare(a.Sink, b.Sink))
}

// Page is Page of checkpoint.Store: what is parked in a lane after a position, in order. It ends before a delivery that is dead, or comes after one
// of its group at the sink "". If the lane is held, it is empty.
func Page(ctx context.Context, db ParkedReader, lane checkpoint.Lane, held bool, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	if lane.Group == "" || limit <= 0 {
		return nil, false, nil
	}
	refs, unrouted, err := db.LaneRefs(ctx, lane, after.String(), limit+1)
	if err != nil {
		return nil, false, err
	}
	n, total := 0, 0
	for ; n < min(len(refs), limit) && !held; n++ {
		r := &refs[n]
		if r.Dead || unrouted != "" && unrouted < r.Position || n > 0 && total+r.Bytes > bytes {
			break
		}
		total += r.Bytes
	}
	more := len(refs) > n
	if n == 0 {
		return nil, more, nil
	}
	page, err := db.Whole(ctx, refs[:n])
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(page, func(a, b checkpoint.Parked) int { return comparePlaces(&a, &b) })
	page, again, err := Complete(ctx, page, true, bytes, db.ReadRow)
	return page, more || again > 0, err
}
