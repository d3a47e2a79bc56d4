package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/snapshot"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// Establish implements source.Source: the configured slot is dropped, if there is one that is the pipeline's own, and made anew.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	snap, err := establish(ctx, &s.cfg, s.patience)
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("established a position in the log", "slot", s.cfg.Slot, "position", string(snap.Resume()))
	return snap, nil
}

func establish(ctx context.Context, c *session.Config, p upstream.Patience) (snap source.Snapshot, err error) {
	conn, err := c.ConnectReplication(ctx)
	if err != nil {
		return nil, err
	}
	// The exported snapshot lives until the next command on this connection. Once another transaction has taken it over,
	// the connection is not needed any more.
	defer func() { err = errors.Join(err, session.ClosePgConn(ctx, conn)) }()
	server, err := upstream.Identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if server.Recovery {
		return nil, upstream.StandbyError("establish a position")
	}
	// A slot sees publications as they were when their log was written: one that is made later does not exist for it.
	if _, err := catalog.Read(ctx, c, conn); err != nil {
		return nil, err
	}
	if err := dropSlot(ctx, c, conn, server); err != nil {
		return nil, err
	}
	slot, err := upstream.Create(ctx, c, conn, server, p)
	if err != nil {
		return nil, err
	}
	tx, err := takeSnapshot(ctx, c, slot.Snapshot)
	if err != nil {
		return nil, err
	}
	return &snapshot.Tables{Cfg: c, Conn: tx, At: slot.Point}, nil
}

// dropSlot drops the slot, lost or not, if it is the pipeline's own and nobody reads it. Any other is an error.
func dropSlot(ctx context.Context, c *session.Config, conn *pgconn.PgConn, server *upstream.Server) error {
	slot, err := upstream.Find(ctx, c, conn)
	if err != nil || slot == nil {
		return err
	}
	var o pgstore.Owner
	if err := pgstore.WithState(ctx, c, func(s *pgstore.Store) (err error) {
		o, err = pgstore.SlotClaims{Cfg: c, State: s}.Judge(ctx, slot, server.Database)
		return err
	}); err != nil {
		return err
	}
	switch {
	case o.Refused != "":
		return pgstore.RefuseSlot(c, o.Refused, o.Fix)
	case !o.Own:
		return fmt.Errorf("use replication slot %q: it was made by somebody else just now", c.Slot)
	}
	if slot, err = upstream.WaitFree(ctx, c, conn); err != nil || slot == nil {
		return err
	}
	if err := session.Exec(ctx, conn, "DROP_REPLICATION_SLOT "+sqltext.Ident(c.Slot)); err != nil {
		return fmt.Errorf("drop replication slot %q: %w", c.Slot, err)
	}
	return nil
}

// takeSnapshot opens a transaction that sees what an exported snapshot sees.
func takeSnapshot(ctx context.Context, c *session.Config, name string) (*pgx.Conn, error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	err = session.Exec(ctx, conn.PgConn(), session.NoTimeouts+"; "+session.AllRows)
	if err == nil {
		err = session.Exec(ctx, conn.PgConn(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT "+sqltext.Literal(name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the position's snapshot: %w", err), session.Close(ctx, conn))
	}
	return conn, nil
}

// Judge implements source.Judge.
func (s *Source) Judge(ctx context.Context, known source.Known) (sweep bool, err error) {
	conn, err := s.cfg.Connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	for _, sql := range []string{session.NoTimeouts, session.AllRows, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"} {
		if err := session.Exec(ctx, conn.PgConn(), sql); err != nil {
			return false, fmt.Errorf("begin to judge pending rows: %w", err)
		}
	}
	return (&snapshot.Tables{Cfg: &s.cfg, Conn: conn}).Judge(ctx, known)
}
