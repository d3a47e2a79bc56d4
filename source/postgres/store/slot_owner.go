package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// An Owner tells whose an existing slot is.
//
// It is the pipeline's own if the pipeline's row of tailbox_checkpoint names it. Load writes the name before the slot is made,
// while there is none of that name; if a slot is taken over, the first checkpoint writes it. So a slot whose maker died before
// it could save a checkpoint is known again, and may be dropped: nothing was read from it. One that somebody else made, or
// whose row is gone, is neither read nor dropped: nothing tells how far it was read, and who needs the rest.
type Owner struct {
	Own bool
	// Refused is why this pipeline may not use the slot, and Fix what can be done; "" if it may: it is its own, or to be taken over.
	Refused, Fix string
}

// SlotClaims says whose replication slots are, by what the relay's tables say. It makes and drops none.
type SlotClaims struct {
	Cfg *session.Config
	// State is the relay's tables; nil if they are missing: then no slot is the pipeline's own.
	State *Store
}

// SlotClaims returns the claims of the store's tables, which need not exist.
func (s *Store) SlotClaims() SlotClaims {
	if s.Schema == "" {
		return SlotClaims{Cfg: &s.Cfg}
	}
	return SlotClaims{&s.Cfg, s}
}

// Judge looks at a slot of the configured name. Database is the one that the pipeline reads.
func (c SlotClaims) Judge(ctx context.Context, slot *upstream.Slot, database string) (o Owner, err error) {
	drop := "if nobody needs this one, SELECT pg_drop_replication_slot(" + sqltext.Literal(c.Cfg.Slot) + ")"
	var positioned bool
	if c.State != nil {
		if o, err = c.rival(ctx); err != nil || o.Refused != "" {
			return o, err
		}
		if err := c.State.Conn.QueryRow(ctx, c.State.SQL(`SELECT coalesce(bool_or(slot = $2), false), coalesce(bool_or(resume IS NOT NULL), false)
			FROM {checkpoint} WHERE pipeline = $1`), c.Cfg.Pipeline, c.Cfg.Slot).Scan(&o.Own, &positioned); err != nil {
			return o, pgerr.Fault("look whose the slot is", err)
		}
	}
	if what := slot.Unlike(database); what != "" {
		return Owner{Refused: what, Fix: "choose another source.slot or, " + drop}, nil
	}
	if o.Own || c.Cfg.TakeOver && !positioned {
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

// rival refuses the configured slot if another pipeline's checkpoint names it.
func (c SlotClaims) rival(ctx context.Context) (o Owner, err error) {
	var other string
	if err := c.State.Conn.QueryRow(ctx, c.State.SQL(`SELECT coalesce(min(pipeline), '') FROM {checkpoint} WHERE pipeline <> $1 AND slot = $2`),
		c.Cfg.Pipeline, c.Cfg.Slot).Scan(&other); err != nil {
		return o, pgerr.Fault("look who uses the slot", err)
	}
	if other != "" {
		o.Refused = "is that of pipeline " + other
		o.Fix = "choose another source.slot or, if that pipeline is gone for good, " + c.State.SQL("DELETE FROM {checkpoint} WHERE pipeline = ") + sqltext.Literal(other)
	}
	return o, nil
}

// Claim refuses a slot that is there and not this pipeline's: two readers of one slot would take each other's log away. own: the slot is the
// pipeline's own, or not made yet; if false, it is to be taken over. It needs the relay's tables.
func (c SlotClaims) Claim(ctx context.Context) (own bool, err error) {
	slot, err := upstream.Find(ctx, c.Cfg, c.State.Conn.PgConn())
	if err != nil {
		return false, err
	}
	var o Owner
	if slot == nil {
		o, err = c.rival(ctx)
		o.Own = true
	} else {
		o, err = c.Of(ctx, c.State.Conn, slot)
	}
	if err == nil && o.Refused != "" {
		err = RefuseSlot(c.Cfg, o.Refused, o.Fix)
	}
	return o.Own, err
}

// Of judges a slot for the database of a session.
func (c SlotClaims) Of(ctx context.Context, conn *pgx.Conn, slot *upstream.Slot) (Owner, error) {
	var database string
	if err := conn.QueryRow(ctx, "SELECT current_database()").Scan(&database); err != nil {
		return Owner{}, pgerr.Fault("look up the database", err)
	}
	return c.Judge(ctx, slot, database)
}

// RefuseSlot returns an error, which matches source.ErrStop.
func RefuseSlot(c *session.Config, what, fix string) error {
	return fmt.Errorf("use replication slot %q: it %s: %s: %w", c.Slot, what, fix, source.ErrStop)
}

// WithState calls look with the relay's tables, on a connection of its own; nil if they are missing.
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
