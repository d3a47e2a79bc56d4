package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
)

// A slotOwner tells whose a slot is that is there.
//
// It is the pipeline's own where the pipeline's row of tailbox_checkpoint names it. Load writes the name before the slot is made,
// while there is none of that name; where a slot is taken over, the first checkpoint writes it. So a slot whose maker died before
// it could save a checkpoint is known again, and may be dropped: nothing was read from it. One that somebody else made, or
// whose row is gone, is neither read nor dropped: nothing tells how far it was read, and who needs the rest.
type slotOwner struct {
	own bool
	// refused is why this pipeline may not use the slot, and cure what can be done; "" if it may: it is its own, or to be taken over.
	refused, cure string
}

// slotOwner looks at a slot of the configured name. State is the relay's tables, nil where they are missing.
func (c *Config) slotOwner(ctx context.Context, state *stateStore, slot *slotState, database string) (o slotOwner, err error) {
	drop := "if nobody needs this one, SELECT pg_drop_replication_slot(" + quoteLiteral(c.Slot) + ")"
	var positioned bool
	if state != nil {
		other, err := state.slotUser(ctx)
		if err != nil {
			return o, err
		}
		if other != "" {
			return slotOwner{refused: "is that of pipeline " + other, cure: state.slotUserCure(other)}, nil
		}
		if err := state.conn.QueryRow(ctx, state.q(`SELECT coalesce(bool_or(slot = $2), false), coalesce(bool_or(resume IS NOT NULL), false)
			FROM {checkpoint} WHERE pipeline = $1`), c.Pipeline, c.Slot).Scan(&o.own, &positioned); err != nil {
			return o, state.fault("look whose the slot is", err)
		}
	}
	if what := slot.unlike(database); what != "" {
		return slotOwner{refused: what, cure: "choose another source.slot or, " + drop}, nil
	}
	if o.own || c.TakeOver && !positioned {
		return o, nil
	}
	o.refused = "is there already, and was not made by this pipeline"
	o.cure = "choose another source.slot or, " + drop
	if !positioned {
		o.cure = "choose another source.slot; or set source.take_over to true, to go on from where it stands, if its reader has stopped for good " +
			"or it was this pipeline's before; or, " + drop
	}
	return o, nil
}

// refuseSlot is an error, which matches source.ErrStop.
func (c *Config) refuseSlot(what, cure string) error {
	return fmt.Errorf("use replication slot %q: it %s: %s: %w", c.Slot, what, cure, source.ErrStop)
}

// claimSlot refuses a slot that is there and not this pipeline's: two readers of one slot would take each other's log away. It
// returns whether the slot is the pipeline's own, or yet to be made; else it is to be taken over.
func (s *stateStore) claimSlot(ctx context.Context) (own bool, err error) {
	slot, err := s.cfg.slot(ctx, s.conn.PgConn())
	if err != nil {
		return false, err
	}
	if slot == nil {
		other, err := s.slotUser(ctx)
		if err == nil && other != "" {
			err = s.cfg.refuseSlot("is that of pipeline "+other, s.slotUserCure(other))
		}
		return true, err
	}
	o, err := s.ownerOf(ctx, slot)
	if err == nil && o.refused != "" {
		err = s.cfg.refuseSlot(o.refused, o.cure)
	}
	return o.own, err
}

// ownerOf tells whose a slot is. Without the relay's tables none is the pipeline's own.
func (s *stateStore) ownerOf(ctx context.Context, slot *slotState) (slotOwner, error) {
	var database string
	if err := s.conn.QueryRow(ctx, "SELECT current_database()").Scan(&database); err != nil {
		return slotOwner{}, s.fault("look up the database", err)
	}
	state := s
	if s.schema == "" {
		state = nil
	}
	return s.cfg.slotOwner(ctx, state, slot, database)
}

// withState calls look with the relay's tables, on a connection of its own; nil where they are missing.
func (c *Config) withState(ctx context.Context, look func(*stateStore) error) (err error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	s := &stateStore{cfg: *c, conn: conn, texts: make(map[string]string)}
	switch err := s.findTables(ctx); {
	case errors.Is(err, source.ErrStop):
		s = nil
	case err != nil:
		return err
	}
	return look(s)
}
