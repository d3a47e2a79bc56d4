package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// parked is a row of tailbox_parked.
type parked struct {
	checkpoint.Parked
	m     *message
	dueAt time.Time
	// triedAt is when the delivery was tried last.
	triedAt time.Time
	// ackRun and ackInst tell which run of the relay heard that the sink took it.
	ackInst *instance
	ackRun  int
	// rowSettled: the message's row was part of a settlement since it was parked; until then other deliveries of the
	// message may be unsettled, and its row is left alone.
	rowSettled bool
}

func (p *parked) lane() checkpoint.Lane {
	return checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}
}

// live reports whether the poller may have to do with it.
func (p *parked) live() bool {
	return p.State == checkpoint.StateRetrying || p.State == checkpoint.StateWaiting
}

// due reports whether a delivery that nothing is before may be sent: a dead one waits for an operator, one without a
// time was only waiting.
func (p *parked) due(now time.Time) bool {
	return p.live() && (!p.Due || !p.dueAt.After(now))
}

// give makes the copy that the relay gets.
func (p *parked) give() checkpoint.Parked {
	q := p.Parked
	m := *p.Message
	q.Message = &m
	q.NextAttempt = max(0, time.Until(p.dueAt))
	return q
}

func (s *server) find(k checkpoint.Key) *parked {
	for _, p := range s.parked {
		if p.Key() == k {
			return p
		}
	}
	return nil
}

// of lists what is parked of a message, dropped ones left out.
func (s *server) of(m *message) []*parked {
	var ps []*parked
	for _, p := range s.parked {
		if p.m == m && p.State != checkpoint.StateDropped {
			ps = append(ps, p)
		}
	}
	return ps
}

// parkedAt names the sinks where a delivery of the message is parked, dropped ones included.
func (s *server) parkedAt(m *message) []string {
	var names []string
	for _, p := range s.parked {
		if p.m == m {
			names = append(names, p.Sink)
		}
	}
	return names
}

// park inserts a delivery in its place by position. One that is parked already stays as it is.
func (s *server) park(in *checkpoint.Parked) {
	p := &parked{Parked: *in, m: s.message(in.Message.Table, in.RowID()), dueAt: time.Now().Add(in.NextAttempt)}
	if p.m == nil {
		s.w.fail("store", "parked %q of %s, which nobody wrote", in.RowID(), in.Message.Table)
		return
	}
	p.triedAt = time.Now()
	m := *in.Message
	p.Message = &m
	s.w.stats.Parked++
	if s.find(p.Key()) != nil {
		s.w.logf("parked already: %s at %q", p.m, p.Sink)
		return
	}
	s.w.logf("parks %s at %q: %s blocks %v due %v", p.m, p.Sink, p.State, p.Blocks, p.Due)
	delete(s.w.narrowed, p.lane())
	p.rowSettled = slices.ContainsFunc(s.parked, func(q *parked) bool { return q.m == p.m && q.rowSettled })
	s.w.checkPark(p)
	i, _ := slices.BinarySearchFunc(s.parked, p, func(a, b *parked) int { return a.Message.Position.Compare(b.Message.Position) })
	s.parked = slices.Insert(s.parked, i, p)
	p.m.parked = append(p.m.parked, p)
}

// change gives a parked delivery a new state, and returns its lane. ordered is false for deliveries that were lanes of
// their own.
func (s *server) change(x *session, ch *checkpoint.Change) (lane checkpoint.Lane, ordered bool) {
	lane = checkpoint.Lane{Sink: ch.Key.Sink, Group: ch.Group}
	p := s.find(ch.Key)
	if p == nil {
		s.w.logf("change of %v: not parked", ch.Key)
		return lane, false
	}
	ordered = p.Blocks
	delete(s.w.narrowed, lane)
	s.w.logf("changes %s at %q: delivered %v %s blocks %v", p.m, p.Sink, ch.Delivered, ch.State, ch.Blocks)
	s.w.checkChange(x, p, ch)
	if ch.Delivered {
		s.remove(p)
		s.w.durable(p.m, p.Sink)
	} else if p.State != checkpoint.StateDropped { // an operator dropped it while it was under way
		p.State, p.Blocks, p.Attempts, p.Due = ch.State, ch.Blocks, ch.Attempts, ch.Due
		if ch.Tries != p.Tries {
			p.triedAt = time.Now()
		}
		p.Tries, p.Failed = ch.Tries, ch.Failed
		p.LastError, p.ErrorClass = ch.LastError, ch.ErrorClass
		p.dueAt = time.Now().Add(ch.NextAttempt)
		p.ackRun = 0
		s.w.checkState(p)
	}
	if ch.Supersede {
		s.supersede(lane)
	}
	if p.rowSettled || !p.m.present {
		s.viewOf(p.m)
	}
	return lane, ordered
}

// supersede leaves only the newest of a lane.
func (s *server) supersede(lane checkpoint.Lane) {
	var last *parked
	for _, p := range s.parked {
		if p.lane() == lane && p.Blocks {
			last = p
		}
	}
	for _, p := range s.parked {
		if p.lane() == lane && p.Blocks && p != last {
			p.State, p.Blocks, p.ErrorClass = checkpoint.StateDead, false, "superseded"
			s.w.checkState(p)
			if p.rowSettled {
				s.viewOf(p.m)
			}
		}
	}
}

func (s *server) remove(p *parked) {
	s.parked = slices.DeleteFunc(s.parked, func(q *parked) bool { return q == p })
	p.m.parked = slices.DeleteFunc(p.m.parked, func(q *parked) bool { return q == p })
}

// head is the first delivery that blocks a lane, or nil.
func (s *server) head(lane checkpoint.Lane) *parked {
	for _, p := range s.parked {
		if p.Blocks && p.lane() == lane {
			return p
		}
	}
	return nil
}

func (s *server) isHeld(lane checkpoint.Lane) bool { return slices.Contains(s.held, lane) }

func (s *server) blockedLanes() []checkpoint.Lane {
	var lanes []checkpoint.Lane
	for _, p := range s.parked {
		if p.Blocks && !slices.Contains(lanes, p.lane()) {
			lanes = append(lanes, p.lane())
		}
	}
	return lanes
}

type rowFate int

const (
	rowActed rowFate = iota
	rowInvisible
	rowGone
)

// settleRow applies on_delivered, or the view of what is parked, to the user's row.
func (s *server) settleRow(r *checkpoint.Row) rowFate {
	m := s.message(r.Table, r.ID)
	if m == nil {
		s.w.fail("store", "settles row %q of %s, which nobody wrote", r.ID, r.Table)
		return rowGone
	}
	switch {
	case !m.txn.visible && r.Txn != 0:
		return rowInvisible
	case m.present && s.w.faulty(2):
		return rowInvisible // somebody holds a lock on it
	case !m.present, !m.txn.visible: // without a Txn, nobody can tell it from one that is gone
		return rowGone
	}
	s.w.checkRow(m, r.Parked)
	if r.Parked {
		for _, p := range s.parked {
			p.rowSettled = p.rowSettled || p.m == m
		}
		s.viewOf(m)
	} else {
		s.onDelivered(m)
	}
	for _, name := range m.names() {
		s.w.durable(m, name)
	}
	return rowActed
}

// viewOf shows in the user's row what is parked of a message, or applies on_delivered if nothing is.
func (s *server) viewOf(m *message) {
	if !m.txn.visible || !m.present {
		if len(s.of(m)) == 0 {
			s.clean(m)
		}
		return
	}
	ps := s.of(m)
	if len(ps) == 0 {
		s.onDelivered(m)
		return
	}
	switch m.table.onDelivered {
	case outbox.Mark:
		m.status = string(worst(ps))
	case outbox.Delete:
		if !slices.ContainsFunc(ps, func(p *parked) bool { return p.InTable }) {
			m.present = false
		}
	}
	m.acted = true
}

func worst(ps []*parked) checkpoint.State {
	rank := []checkpoint.State{checkpoint.StateWaiting, checkpoint.StateRetrying, checkpoint.StateDead}
	w := 0
	for _, p := range ps {
		w = max(w, slices.Index(rank, p.State))
	}
	return rank[w]
}

func (s *server) onDelivered(m *message) {
	s.w.checkDelivered(m)
	s.clean(m)
	m.acted = true
	switch m.table.onDelivered {
	case outbox.Delete:
		m.present = false
	case outbox.Mark:
		m.status = delivered
	}
}

// clean removes the dropped deliveries of a message that is settled as a whole. If rows are kept, nothing tells
// that but the delivery itself.
func (s *server) clean(m *message) {
	if m.table.onDelivered == outbox.Keep {
		return
	}
	for _, p := range slices.Clone(m.parked) {
		if p.State == checkpoint.StateDropped {
			s.remove(p)
		}
	}
}

// Due returns the first deliveries of lanes that are due.
func (x *session) Due(ctx context.Context, q *checkpoint.DueQuery) ([]checkpoint.Parked, time.Duration, error) {
	s := &x.inst.w.server
	var list []checkpoint.Parked
	var next time.Duration
	err := x.do(ctx, "due", func() error {
		now := time.Now()
		var due []*parked
		for _, p := range s.parked {
			if !p.live() || !slices.Contains(q.Sinks, p.Sink) || s.isHeld(p.lane()) || p.Blocks && s.head(p.lane()) != p || s.behindStray(p) {
				continue
			}
			if q.Except[p.Key()] {
				continue
			}
			if p.due(now) {
				due = append(due, p)
			} else if d := p.dueAt.Sub(now); next == 0 || d < next {
				next = d
			}
		}
		if q.Probe {
			due = probed(due, q.Limit)
		}
		if len(due) > q.Limit {
			due, next = due[:q.Limit], time.Millisecond
		}
		for _, p := range due {
			list = append(list, p.give())
		}
		s.w.logf("due: %d, next in %v", len(list), next)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return list, next, nil
}

// probed brings what is due, in order of position, into the order in which a probe of limit deliveries takes it.
func probed(due []*parked, limit int) []*parked {
	place := make(map[*parked]int, len(due))
	var untried, tried []*parked
	for i, p := range due {
		place[p] = i
		if p.Tries == 0 {
			untried = append(untried, p)
		} else {
			tried = append(tried, p)
		}
	}
	slices.SortStableFunc(untried, func(a, b *parked) int { return a.dueAt.Compare(b.dueAt) })
	slices.SortFunc(untried[:min(limit, len(untried))], func(a, b *parked) int { return place[a] - place[b] })
	slices.SortStableFunc(tried, func(a, b *parked) int { return a.triedAt.Compare(b.triedAt) })
	return append(untried, tried...)
}

// behindStray reports whether a message of its group that could not be routed is before a delivery.
func (s *server) behindStray(p *parked) bool {
	if p.Sink == "" || !p.Blocks {
		return false
	}
	stray := s.head(checkpoint.Lane{Group: p.Message.Group})
	return stray != nil && stray.Message.Position.Compare(p.Message.Position) < 0
}

// Page reads on in a parked lane.
func (x *session) Page(ctx context.Context, lane checkpoint.Lane, after outbox.Position, limit, bytes int) ([]checkpoint.Parked, bool, error) {
	s := &x.inst.w.server
	var page []checkpoint.Parked
	more := false
	err := x.do(ctx, fmt.Sprintf("page %v", lane), func() error {
		limit = min(limit, 1+s.w.rng.IntN(4)) // small pages, so that there are several
		for _, p := range s.parked {
			if !p.Blocks || p.lane() != lane || p.Message.Position.Compare(after) <= 0 {
				continue
			}
			if !p.live() || s.behindStray(p) || s.isHeld(lane) || len(page) >= limit || bytes < 0 {
				more = true
				break
			}
			bytes -= len(p.Message.Payload)
			page = append(page, p.give())
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return page, more, nil
}
