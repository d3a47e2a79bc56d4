package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// An Owner tells whose a slot is that is there.
//
// It is the pipeline's own where the pipeline's row of tailbox_checkpoint names it. Load writes the name before the slot is made,
// while there is none of that name; where a slot is taken over, the first checkpoint writes it. So a slot whose maker died before
// it could save a checkpoint is known again, and may be dropped: nothing was read from it. One that somebody else made, or
// whose row is gone, is neither read nor dropped: nothing tells how far it was read, and who needs the rest.
type Owner struct {
	Own bool
	// refused is why this pipeline may not use the slot, and fix what can be done; "" if it may: it is its own, or to be taken over.
	Refused, Fix string
}

// JudgeSlot looks at a slot of the configured name. State is the relay's tables, nil where they are missing.
func JudgeSlot(ctx context.Context, c *session.Config, state *Store, slot *upstream.Slot, database string) (o Owner, err error) {
	drop := "if nobody needs this one, SELECT pg_drop_replication_slot(" + sqltext.Literal(c.Slot) + ")"
	var positioned bool
	if state != nil {
		other, err := state.slotUser(ctx)
		if err != nil {
			return o, err
		}
		if other != "" {
			return Owner{Refused: "is that of pipeline " + other, Fix: state.slotUserFix(other)}, nil
		}
		if err := state.Conn.QueryRow(ctx, state.SQL(`SELECT coalesce(bool_or(slot = $2), false), coalesce(bool_or(resume IS NOT NULL), false)
			FROM {checkpoint} WHERE pipeline = $1`), c.Pipeline, c.Slot).Scan(&o.Own, &positioned); err != nil {
			return o, state.Fault("look whose the slot is", err)
		}
	}
	if what := slot.Unlike(database); what != "" {
		return Owner{Refused: what, Fix: "choose another source.slot or, " + drop}, nil
	}
	if o.Own || c.TakeOver && !positioned {
		return o, nil
	}
	o.Refused = "is there already, and was not made by this pipeline"
	o.Fix = "choose another source.slot or, " + drop
	if !positioned {
		o.Fix = "choose another source.slot; or set source.take_over to true, to go on from where it stands, if its reader has stopped for good " +
			"or it was this pipeline's before; or, " + drop
	}
	return o, nil
}

// RefuseSlot is an error, which matches source.ErrStop.
func RefuseSlot(c *session.Config, what, fix string) error {
	return fmt.Errorf("use replication slot %q: it %s: %s: %w", c.Slot, what, fix, source.ErrStop)
}

// ClaimSlot refuses a slot that is there and not this pipeline's: two readers of one slot would take each other's log away. It
// returns whether the slot is the pipeline's own, or yet to be made; else it is to be taken over.
func (s *Store) ClaimSlot(ctx context.Context) (own bool, err error) {
	slot, err := upstream.Find(ctx, &s.Cfg, s.Conn.PgConn())
	if err != nil {
		return false, err
	}
	if slot == nil {
		other, err := s.slotUser(ctx)
		if err == nil && other != "" {
			err = RefuseSlot(&s.Cfg, "is that of pipeline "+other, s.slotUserFix(other))
		}
		return true, err
	}
	o, err := s.OwnerOf(ctx, slot)
	if err == nil && o.Refused != "" {
		err = RefuseSlot(&s.Cfg, o.Refused, o.Fix)
	}
	return o.Own, err
}

// OwnerOf tells whose a slot is. Without the relay's tables none is the pipeline's own.
func (s *Store) OwnerOf(ctx context.Context, slot *upstream.Slot) (Owner, error) {
	var database string
	if err := s.Conn.QueryRow(ctx, "SELECT current_database()").Scan(&database); err != nil {
		return Owner{}, s.Fault("look up the database", err)
	}
	state := s
	if s.Schema == "" {
		state = nil
	}
	return JudgeSlot(ctx, &s.Cfg, state, slot, database)
}

// WithState calls look with the relay's tables, on a connection of its own; nil where they are missing.
func WithState(ctx context.Context, c *session.Config, look func(*Store) error) (err error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	s := On(*c, conn)
	switch err := s.FindTables(ctx); {
	case errors.Is(err, source.ErrStop):
		s = nil
	case err != nil:
		return err
	}
	return look(s)
}
