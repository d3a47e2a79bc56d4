package stream

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// A takenSlot is the position of a slot that somebody else made and read, up to its confirmed_flush_lsn. What was committed before
// is theirs, so there is nothing to sweep; what they have sent beyond it, without confirming it, comes again.
type takenSlot struct{ resume pgrepl.LSN }

var _ source.Snapshot = takenSlot{}

// Resume implements source.Snapshot.
func (s takenSlot) Resume() source.Resume { return source.Resume(s.resume.String()) }

// Judge implements source.Snapshot.
func (s takenSlot) Judge(context.Context, source.Known) (bool, error) { return false, nil }

// Pending implements source.Snapshot.
func (s takenSlot) Pending(context.Context, uint32, source.Emit) error { return nil }

// Close implements source.Snapshot.
func (s takenSlot) Close(context.Context) error { return nil }

// takeSlot takes the slot over, where this pipeline has no position yet and there is one; else it returns nil. A slot that
// cannot be read any more is an error: a new one would begin later, and what was committed between would be lost.
func takeSlot(ctx context.Context, c *session.Config, conn *pgconn.PgConn, server *upstream.Server) (source.Snapshot, error) {
	have, err := positioned(ctx, c)
	if err != nil || have {
		return nil, err
	}
	slot, err := upstream.WaitFree(ctx, c, conn)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if slot == nil {
		c.Log().Warn("there is no slot to take over: what was committed up to now is not delivered", "slot", c.Slot)
		return nil, nil
	}
	if err := upstream.RefuseForeign(c, slot, server.Database); err != nil {
		return nil, err
	}
	confirmed, err := pgrepl.ParseLSN(slot.Confirmed)
	if err != nil {
		confirmed = 0 // Lost says why
	}
	lost, err := upstream.Lost(c, slot, server, confirmed)
	if err != nil {
		return nil, err
	}
	if lost != "" {
		return nil, fmt.Errorf("take over: %s: what was committed since is in the table at most: drop the slot with SELECT pg_drop_replication_slot(%s), and set "+
			"source.start to pending to deliver what is in the table: %w", lost, sqltext.Literal(c.Slot), source.ErrStop)
	}
	return takenSlot{confirmed}, nil
}

// positioned reports whether the pipeline ever had a position.
func positioned(ctx context.Context, c *session.Config) (have bool, err error) {
	err = pgstore.WithState(ctx, c, func(s *pgstore.Store) (err error) {
		if s != nil {
			have, err = s.Positioned(ctx)
		}
		return err
	})
	return have, err
}
