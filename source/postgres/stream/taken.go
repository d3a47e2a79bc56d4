package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// TakeOver implements source.Taker. The position is that of a slot that somebody else made and read, up to its confirmed_flush_lsn; what they have
// sent beyond it, without confirming it, comes again. It returns nil
// if the configuration does not ask for it.
func (s *Source) TakeOver(ctx context.Context) (_ source.Snapshot, err error) {
	if !s.cfg.TakeOver {
		return nil, nil
	}
	conn, err := s.cfg.ConnectReplication(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.ClosePgConn(ctx, conn)) }()
	server, err := upstream.Identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if server.Recovery {
		return nil, upstream.StandbyError("take over")
	}
	if _, err := catalog.Read(ctx, &s.cfg, conn); err != nil {
		return nil, err
	}
	return takeSlot(ctx, &s.cfg, conn, server)
}

// takeSlot takes the slot over. None, or one that cannot be read any more, is an error: a new one would begin later, and what was committed between
// would be lost.
func takeSlot(ctx context.Context, c *session.Config, conn *pgconn.PgConn, server *upstream.Server) (source.Snapshot, error) {
	slot, err := upstream.WaitFree(ctx, c, conn)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	if slot == nil {
		return nil, fmt.Errorf("take over: there is no slot %q: correct source.slot, or if its reader never had one, or what it left is not to be delivered, "+
			"remove source.take_over: %w", c.Slot, source.ErrStop)
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
	c.Log().Info("took the slot over", "slot", c.Slot, "position", confirmed.String())
	return source.Taken(confirmed.String()), nil
}
