package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// request is a row of tailbox_request.
type request struct {
	checkpoint.Request
	done    bool
	touched []checkpoint.Key // what it has changed already
}

// ask is an operator's request.
func (s *server) ask(verb checkpoint.Verb, sel checkpoint.Selection) {
	r := &request{Request: checkpoint.Request{ID: int64(len(s.requests) + 1), Verb: verb, Selection: sel, Reason: "why", By: "operator"}}
	s.requests = append(s.requests, r)
	s.w.stats.Verbs++
	sel.Edit = nil
	s.w.logf("operator asks: %d %s %+v", r.ID, verb, sel)
}

// Requests returns what was asked for and is not done.
func (x *session) Requests(ctx context.Context) ([]checkpoint.Request, error) {
	s := &x.inst.w.server
	var list []checkpoint.Request
	err := x.do(ctx, "requests", func() error {
		for _, r := range s.requests {
			if !r.done {
				list = append(list, r.Request)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Lanes names lanes that a request will change.
func (x *session) Lanes(ctx context.Context, r *checkpoint.Request, limit int) ([]checkpoint.Lane, error) {
	s := &x.inst.w.server
	var lanes []checkpoint.Lane
	err := x.do(ctx, fmt.Sprintf("lanes of %d", r.ID), func() error {
		lanes = s.lanes(s.requests[r.ID-1])
		if limit = min(limit, 1+s.w.rng.IntN(4)); len(lanes) > limit {
			lanes = lanes[:limit]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lanes, nil
}

func (s *server) lanes(r *request) []checkpoint.Lane {
	var lanes []checkpoint.Lane
	add := func(l checkpoint.Lane) {
		if !slices.Contains(lanes, l) {
			lanes = append(lanes, l)
		}
	}
	sel := &r.Selection
	switch r.Verb {
	case checkpoint.VerbHold, checkpoint.VerbResume:
		for _, g := range sel.Groups {
			for _, name := range sinkNames() {
				l := checkpoint.Lane{Sink: name, Group: g}
				if (sel.Sink == "" || sel.Sink == name) && s.isHeld(l) == (r.Verb == checkpoint.VerbResume) {
					add(l)
				}
			}
		}
	case checkpoint.VerbPause, checkpoint.VerbAcceptGap:
	default:
		for _, p := range s.selected(r) {
			add(p.lane())
		}
	}
	return lanes
}

// selected lists the parked deliveries that a request is still to change.
func (s *server) selected(r *request) []*parked {
	var ps []*parked
	for _, p := range s.parked {
		if !slices.Contains(r.touched, p.Key()) && s.matches(r, p) {
			ps = append(ps, p)
		}
	}
	return ps
}

func (s *server) matches(r *request, p *parked) bool {
	sel := &r.Selection
	states := sel.States
	if len(states) == 0 {
		states = []checkpoint.State{checkpoint.StateDead}
	}
	switch {
	case !slices.Contains(states, p.State),
		len(sel.IDs) > 0 && !slices.Contains(sel.IDs, p.Message.ID) && !slices.Contains(sel.IDs, p.RowID()),
		len(sel.Groups) > 0 && !slices.Contains(sel.Groups, p.Message.Group),
		sel.Sink != "" && sel.Sink != p.Sink,
		sel.Type != "" && sel.Type != p.Message.Type,
		sel.Table != "" && sel.Table != p.Message.Table:
		return false
	}
	switch r.Verb {
	case checkpoint.VerbReplay, checkpoint.VerbEdit:
		// What its group has passed is sent again only on demand; what was not copied or cannot be routed stays as it is.
		return (p.Blocks || p.Message.Group == "" || sel.AllowReorder) && !p.InTable && p.Sink != ""
	case checkpoint.VerbSkip:
		// What is retried behind one that was skipped was no head when the operator saw it.
		passed := slices.ContainsFunc(r.touched, func(k checkpoint.Key) bool { q := s.find(k); return q != nil && q.lane() == p.lane() })
		return p.Blocks && s.head(p.lane()) == p && (p.State == checkpoint.StateDead || !passed)
	}
	return true
}

// Apply carries out a request for some lanes.
func (x *session) Apply(ctx context.Context, r *checkpoint.Request, lanes []checkpoint.Lane) (*checkpoint.Applied, error) {
	s := &x.inst.w.server
	lanes = slices.Clone(lanes)
	var a *checkpoint.Applied
	x.inst.w.mu.Lock()
	x.applying = lanes
	x.inst.w.mu.Unlock()
	err := x.do(ctx, fmt.Sprintf("apply %d %s %v", r.ID, r.Verb, lanes), func() error {
		s.w.checkApply(x, lanes)
		a = s.apply(x, s.requests[r.ID-1], lanes)
		x.onAnswer = func() { x.learn(s.requests[r.ID-1]) }
		return nil
	})
	x.inst.w.mu.Lock()
	x.applying = nil
	x.inst.w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return a, nil
}

// learn is the relay hearing that a request was carried out.
func (x *session) learn(r *request) {
	for _, name := range r.Selection.Sinks {
		delete(x.paused, name)
		if r.Verb == checkpoint.VerbPause {
			x.paused[name] = x.inst.w.step
		}
	}
}

func (s *server) apply(x *session, r *request, lanes []checkpoint.Lane) *checkpoint.Applied {
	a := &checkpoint.Applied{}
	var before []checkpoint.Lane
	for _, l := range lanes {
		if s.isHeld(l) || s.head(l) != nil {
			before = append(before, l)
		}
	}
	switch r.Verb {
	case checkpoint.VerbHold, checkpoint.VerbResume:
		for _, l := range lanes {
			s.held = slices.DeleteFunc(s.held, func(h checkpoint.Lane) bool { return h == l })
			delete(x.held, l)
			if r.Verb == checkpoint.VerbHold {
				s.held = append(s.held, l)
				x.held[l] = s.w.step
			}
		}
		fallthrough
	case checkpoint.VerbPause:
		for _, name := range r.Selection.Sinks {
			s.paused = slices.DeleteFunc(s.paused, func(p string) bool { return p == name })
			if r.Verb == checkpoint.VerbPause {
				s.paused = append(s.paused, name)
			}
		}
	case checkpoint.VerbAcceptGap:
		s.acceptGap = true
	default:
		for _, p := range s.selected(r) {
			if slices.Contains(lanes, p.lane()) {
				r.touched = append(r.touched, p.Key())
				s.applyTo(r, p)
				a.Changed++
			}
		}
	}
	for _, l := range lanes {
		switch {
		case s.isHeld(l) || s.head(l) != nil:
			a.Blocked = append(a.Blocked, l)
		case slices.Contains(before, l):
			a.Open = append(a.Open, l)
		}
	}
	a.Done = len(s.lanes(r)) == 0
	r.done = a.Done
	s.w.logf("applied %d: changed %d, open %v, blocked %v, done %v", r.ID, a.Changed, a.Open, a.Blocked, a.Done)
	return a
}

// applyTo changes one delivery.
func (s *server) applyTo(r *request, p *parked) {
	f := p.m.fate(p.Sink)
	switch r.Verb {
	case checkpoint.VerbEdit:
		if e := r.Selection.Edit; e != nil {
			p.Original = p.RowID()
			p.Message.ID = e.NewID
			if e.Payload != nil {
				p.Message.Payload = *e.Payload
			}
		}
		fallthrough
	case checkpoint.VerbReplay:
		p.State, p.Blocks, p.Attempts, p.Due = checkpoint.StateRetrying, p.Message.Group != "", 0, true
		p.Tries, p.Failed = 0, checkpoint.Failure{}
		p.dueAt = time.Now()
		p.Replays++
		f.forgive()
		f.acked, f.unheard, p.ackRun = false, f.delivered > 0, 0
	case checkpoint.VerbDrop:
		p.State, p.Blocks = checkpoint.StateDropped, false
		f.passed = true
		if p.rowSettled || !p.m.present {
			s.viewOf(p.m)
		}
	case checkpoint.VerbSkip:
		retried := p.State == checkpoint.StateRetrying
		p.State, p.Blocks, p.Due = checkpoint.StateDead, false, false
		f.passed = true
		if retried {
			s.w.stats.Dead++
			if p.rowSettled || !p.m.present {
				s.viewOf(p.m)
			}
		}
	}
}

// Pending lists rows that the tables say are pending, and writes a barrier behind them.
func (x *session) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	s := &x.inst.w.server
	var list *checkpoint.PendingRows
	err := x.do(ctx, "pending "+cursor, func() error {
		list = s.pendingRows(cursor, min(limit, 1+s.w.rng.IntN(8)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *server) pendingRows(cursor string, limit int) *checkpoint.PendingRows {
	list := &checkpoint.PendingRows{}
	from, _ := strconv.Atoi(cursor) // of the first call, "" is 0
	for i := from; i < len(s.w.messages); i++ {
		m := s.w.messages[i]
		if !m.pendingRow() || !m.txn.visible || !reconciled(m) {
			continue
		}
		if slices.ContainsFunc(s.parked, func(p *parked) bool { return p.m == m && p.rowSettled }) {
			s.askForReset(m)
			continue
		}
		if len(list.Rows) == limit {
			list.Cursor = fmt.Sprint(i)
			break
		}
		list.Rows = append(list.Rows, checkpoint.RowRef{Table: m.table.name, ID: m.id})
	}
	list.Barrier, list.Commit = s.barrier()
	s.w.logf("pending: %v, %s at %d", list.Rows, list.Barrier, list.Commit)
	return list
}

// reconciled reports whether a table's rows say by themselves that they are pending.
func reconciled(m *message) bool { return m.table.onDelivered != outbox.Keep }

// askForReset asks for the replay of dead deliveries whose row somebody set back to pending with plain SQL, unless that
// was asked for already.
func (s *server) askForReset(m *message) {
	if m.table.onDelivered != outbox.Mark {
		return
	}
	for _, p := range s.of(m) {
		if p.State != checkpoint.StateDead || !p.rowSettled || p.InTable || p.Sink == "" {
			continue
		}
		open := slices.ContainsFunc(s.requests, func(r *request) bool { return !r.done && slices.Contains(r.Selection.IDs, m.id) })
		if !open {
			s.ask(checkpoint.VerbReplay, checkpoint.Selection{IDs: []string{m.id}, AllowReorder: true})
		}
		return
	}
}

// Fetch reads those of the rows that are still pending.
func (x *session) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	s := &x.inst.w.server
	var ms []*outbox.Message
	var at2 [][]string
	err := x.do(ctx, "fetch", func() error {
		total := 0
		for _, r := range rows {
			m := s.message(r.Table, r.ID)
			if m == nil || !m.pendingRow() || !m.txn.visible {
				continue
			}
			if total >= bytes {
				break
			}
			total += s.build(m, at, 0).Size()
			ms = append(ms, s.build(m, at, 0))
			at2 = append(at2, s.parkedAt(m))
			at.N++
			m.unordered = true
			s.w.logf("fetched %s", m)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return ms, at2, nil
}
