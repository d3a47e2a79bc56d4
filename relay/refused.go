package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// refusedMost bounds the search for single rows that the database refuses to delete or mark. Once it has found so many, all rows that are left count
// as refused.
const refusedMost = 8

// settle settles s. If the database refuses to change some rows, for example one that another table refers to, settle settles the rest without them.
// The store tries a refused row again later if deliveries of its message are parked. If none is, settle parks a record that the message is delivered,
// by which the store finds the row. If the database refuses row after row, the table is the cause: s.refused names the rows, and the relay stops. The
// next start does not deliver them again. settle runs beside the engine's loop.
func settle(ctx context.Context, store checkpoint.Store, s *settlement, refusals int) (*checkpoint.Settled, error) {
	done, err := store.Settle(ctx, &s.Settlement)
	if !errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrNoTable) { // without its table no start delivers anything
		return done, err
	}
	a := isolation{store: store, s: s, why: err, before: refusals}
	for i := range s.Rows {
		if !s.Rows[i].Parked { // the others are settled with what is parked
			a.plain = append(a.plain, i)
		}
	}
	return a.settle(ctx)
}

// An isolation settles rows in transactions of their own, and finds those that the database refuses.
type isolation struct {
	store checkpoint.Store
	s     *settlement
	plain []int // indexes of rows
	why   error
	// before is how many rows the relay set aside since the database last accepted one.
	before int
	done   *checkpoint.Settled
	// left are rows that are not visible yet, refused those that the database refuses.
	left, refused []int
}

func (a *isolation) settle(ctx context.Context) (_ *checkpoint.Settled, err error) {
	all := a.s.Settlement
	rest := checkpoint.Settlement{Park: all.Park, Changes: all.Changes}
	var parked []int
	for i := range all.Rows {
		if all.Rows[i].Parked {
			parked, rest.Rows = append(parked, i), append(rest.Rows, all.Rows[i])
		}
	}
	rest.Checkpoint = func(invisible []int) *checkpoint.Checkpoint {
		return all.Checkpoint(ascending(slices.Concat(a.plain, pick(parked, invisible))))
	}
	err = a.why
	if len(a.plain) > 0 {
		a.done, err = a.store.Settle(ctx, &rest)
	}
	if errors.Is(err, source.ErrStop) { // one of those with parked deliveries is refused
		rest.LeaveRows = true
		a.done, err = a.store.Settle(ctx, &rest)
	}
	if errors.Is(err, source.ErrStop) {
		return nil, a.why // rows are not the cause, or not the only one
	} else if err != nil {
		return nil, err
	}
	if rest.LeaveRows { // The store cannot leave these rows for later, because nothing of their messages is parked: settle them like plain rows
		a.plain = append(a.plain, pick(parked, a.done.Invisible)...)
	} else {
		a.left = pick(parked, a.done.Invisible)
	}
	if err := a.rows(ctx, a.plain, !rest.LeaveRows); err != nil {
		return nil, err
	}
	if err := a.setAside(ctx); err != nil {
		return nil, err
	}
	a.done.Invisible = ascending(slices.Concat(a.left, a.refused))
	a.s.refused, a.s.why = ascending(a.refused), a.why
	if cp := all.Checkpoint(a.done.Invisible); cp != nil {
		a.done.Saved = true
		return a.done, a.store.Save(ctx, cp)
	}
	return a.done, nil
}

// rows settles rows. If the database refuses some, it halves the set until it has found them. known: the database has already refused this set as a
// whole.
func (a *isolation) rows(ctx context.Context, rows []int, known bool) error {
	if len(rows) == 0 {
		return nil
	}
	if len(a.refused) >= refusedMost {
		a.refused = append(a.refused, rows...)
		return nil
	}
	if !known || len(rows) == 1 {
		some := &checkpoint.Settlement{}
		for _, i := range rows {
			some.Rows = append(some.Rows, a.s.Rows[i])
		}
		done, err := a.store.Settle(ctx, some)
		if err == nil {
			a.done.Gone += done.Gone
			a.done.Awaited = a.done.Awaited || done.Awaited
			a.left = append(a.left, pick(rows, done.Invisible)...)
			return nil
		}
		if !errors.Is(err, source.ErrStop) {
			return fmt.Errorf("settle rows apart: %w", err)
		}
		if len(rows) == 1 {
			a.why, a.refused = err, append(a.refused, rows...)
			return nil
		}
	}
	half := len(rows) / 2
	return errors.Join(a.rows(ctx, rows[:half], false), a.rows(ctx, rows[half:], false))
}

// setAside records that the messages of the refused rows are delivered, so that only the store still has to change the rows. If refusedMost rows or
// more are refused, the table is the cause, and they stay refused.
func (a *isolation) setAside(ctx context.Context) error {
	n := len(a.refused)
	if n == len(a.plain) {
		n += a.before
	}
	if n == 0 || n >= refusedMost {
		return nil
	}
	aside := &checkpoint.Settlement{LeaveRows: true}
	for _, i := range a.refused {
		m, row := a.s.rows[i], a.s.Rows[i]
		if m.Route == nil || len(m.Route.To) == 0 {
			return nil
		}
		row.Parked = true
		aside.Rows = append(aside.Rows, row)
		aside.Park = append(aside.Park, checkpoint.Parked{Sink: m.Route.To[0], State: checkpoint.StateDelivered, Message: m.Message, Attempts: 1, InTable: true})
	}
	done, err := a.store.Settle(ctx, aside)
	if errors.Is(err, source.ErrStop) {
		return nil
	} else if err != nil {
		return fmt.Errorf("set rows aside: %w", err)
	}
	refused := pick(a.refused, done.Invisible)
	a.s.aside = len(a.refused) - len(refused)
	a.refused = refused
	return nil
}

// pick are the elements at these indexes.
func pick(of, at []int) []int {
	out := make([]int, len(at))
	for i, n := range at {
		out[i] = of[n]
	}
	return out
}

func ascending(n []int) []int {
	slices.Sort(n)
	return n
}

// refuse counts the rows that were set aside. It forgets those that could not be: they stay unsettled, and the next start tries them again. Because
// of them, the relay settles what it has read, then stops.
func (st *settler) refuse(s *settlement, done *checkpoint.Settled, now time.Time) {
	if len(s.rows) > len(done.Invisible)+s.aside {
		st.refusals = 0
	}
	if s.aside > 0 {
		st.refusals += s.aside
		st.e.poller.dueSoon(0, now) // the store tries them, and logs what the database says
	}
	for _, i := range s.refused {
		m := s.rows[i]
		m.Batch.Done(st.e.intake.memory)
		st.e.forgetting(m)
	}
	if len(s.refused) > 0 && st.e.cause == nil {
		st.e.drain(fmt.Errorf("settle: %w", s.why))
	}
}
