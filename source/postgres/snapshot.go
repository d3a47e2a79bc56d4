package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/store"
)

// A tableSnapshot is the state of the tables at the position where a new slot begins. It is a read-only transaction on a
// connection of its own.
type tableSnapshot struct {
	cfg    *Config
	conn   *pgx.Conn
	resume pgrepl.LSN
	sweeps []sweep
	// within, where set, is a further condition of all rows, of which t is one: the position is in the sequence, not in the log.
	within string
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	rows  *rowReader
	where string
}

var (
	_ source.Snapshot  = (*tableSnapshot)(nil)
	_ source.Discarder = (*tableSnapshot)(nil)
)

// Establish implements source.Source: the configured slot is dropped, if there is one that is the pipeline's own, and made anew.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	snap, err := s.cfg.establish(ctx, s.patience)
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("established a position in the log", "slot", s.cfg.Slot, "position", string(snap.Resume()))
	return snap, nil
}

func (c *Config) establish(ctx context.Context, p slotPatience) (snap source.Snapshot, err error) {
	conn, err := c.connectReplication(ctx)
	if err != nil {
		return nil, err
	}
	// The exported snapshot lives until the next command on this connection. Once another transaction has taken it over,
	// the connection is not needed any more.
	defer func() { err = errors.Join(err, closePgConn(ctx, conn)) }()
	server, err := identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if server.recovery {
		return nil, errStandby("establish a position")
	}
	// A slot sees publications as they were when their log was written: one that is made later does not exist for it.
	if _, err := c.readCatalog(ctx, conn); err != nil {
		return nil, err
	}
	if c.TakeOver {
		if taken, err := c.takeSlot(ctx, conn, server); err != nil || taken != nil {
			return taken, err
		}
	}
	if err := c.dropSlot(ctx, conn, server); err != nil {
		return nil, err
	}
	slot, err := c.createSlot(ctx, conn, server, p)
	if err != nil {
		return nil, err
	}
	tx, err := c.takeSnapshot(ctx, slot.snapshot)
	if err != nil {
		return nil, err
	}
	return &tableSnapshot{cfg: c, conn: tx, resume: slot.point}, nil
}

// dropSlot drops the slot, lost or not, if it is the pipeline's own and nobody reads it. Any other is an error.
func (c *Config) dropSlot(ctx context.Context, conn *pgconn.PgConn, server *serverInfo) error {
	slot, err := c.slot(ctx, conn)
	if err != nil || slot == nil {
		return err
	}
	var o slotOwner
	if err := c.withState(ctx, func(s *stateStore) (err error) {
		o, err = c.slotOwner(ctx, s, slot, server.database)
		return err
	}); err != nil {
		return err
	}
	switch {
	case o.refused != "":
		return c.refuseSlot(o.refused, o.cure)
	case !o.own:
		return fmt.Errorf("use replication slot %q: it was made by somebody else just now", c.Slot)
	}
	if slot, err = c.inactiveSlot(ctx, conn); err != nil || slot == nil {
		return err
	}
	if err := execSimple(ctx, conn, "DROP_REPLICATION_SLOT "+quoteIdent(c.Slot)); err != nil {
		return fmt.Errorf("drop replication slot %q: %w", c.Slot, err)
	}
	return nil
}

// takeSnapshot opens a transaction that sees what an exported snapshot sees.
func (c *Config) takeSnapshot(ctx context.Context, name string) (*pgx.Conn, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	err = execSimple(ctx, conn.PgConn(), noTimeouts)
	if err == nil {
		err = execSimple(ctx, conn.PgConn(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT "+quoteLiteral(name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the position's snapshot: %w", err), closeConn(ctx, conn))
	}
	return conn, nil
}

// Resume implements source.Snapshot.
func (s *tableSnapshot) Resume() source.Resume { return source.Resume(s.resume.String()) }

// Close implements source.Snapshot.
func (s *tableSnapshot) Close(ctx context.Context) error { return closeConn(ctx, s.conn) }

// Discard implements source.Discarder: it drops the slot.
func (s *tableSnapshot) Discard(ctx context.Context) error {
	if s.within != "" {
		return nil // the position is in the sequence
	}
	if err := execSimple(ctx, s.conn.PgConn(), "ROLLBACK"); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	if err := execSimple(ctx, s.conn.PgConn(), "SELECT pg_catalog.pg_drop_replication_slot("+quoteLiteral(s.cfg.Slot)+")"); err != nil {
		return fmt.Errorf("drop replication slot %q: %w", s.cfg.Slot, err)
	}
	return nil
}

// Judge implements source.Snapshot.
func (s *tableSnapshot) Judge(ctx context.Context, known source.Known) (bool, error) {
	s.sweeps = nil
	var unjudged []error
	if s.cfg.Messages != "" && !known.First && !known.AcceptGap && s.within == "" {
		unjudged = append(unjudged, fmt.Errorf("messages that were written by pg_logical_emit_message with the prefix %q are in no table, and those "+
			"that the lost log held cannot be swept: run tailbox accept-gap --why … to go on without them: %w", s.cfg.Messages, source.ErrUnjudged))
	}
	for i := range s.cfg.Tables {
		rows, err := newRowReader(ctx, s.conn.PgConn(), &s.cfg.Tables[i], s.cfg.MaxMessage)
		if err != nil {
			return false, err
		}
		where, cure := s.cfg.pendingRows(rows.table, known)
		if where == "" {
			continue
		}
		if s.within != "" {
			where = "(" + where + ") AND " + s.within
		}
		found, err := s.exists(ctx, rows, where)
		switch {
		case err != nil:
			return false, err
		case found && cure != "" && !known.AcceptGap:
			unjudged = append(unjudged, fmt.Errorf("table %s has rows and no status column: %s: %w", rows.table, cure, source.ErrUnjudged))
		case found && cure == "":
			s.sweeps = append(s.sweeps, sweep{rows, where})
		}
	}
	return len(s.sweeps) > 0, errors.Join(unjudged...)
}

// Judge implements source.Judge.
func (s *Source) Judge(ctx context.Context, known source.Known) (sweep bool, err error) {
	conn, err := s.cfg.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	for _, sql := range []string{noTimeouts, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"} {
		if err := execSimple(ctx, conn.PgConn(), sql); err != nil {
			return false, fmt.Errorf("begin to judge pending rows: %w", err)
		}
	}
	return (&tableSnapshot{cfg: &s.cfg, conn: conn}).Judge(ctx, known)
}

func (s *tableSnapshot) exists(ctx context.Context, rows *rowReader, where string) (bool, error) {
	var found bool
	err := s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+rows.from()+" t WHERE "+where+")").Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for pending rows in %s: %w", rows.table, err)
	}
	return found, nil
}

// pendingRows is the SQL condition by which a table's rows are pending at a new position; "" = none is. With a cure, nothing
// tells: if there are such rows at all, an operator has to do what it says.
func (c *Config) pendingRows(t *tableInfo, known source.Known) (where, cure string) {
	if where := t.pendingCondition("t"); where != "" {
		return where, ""
	}
	sweep, cure := store.Unmarked(&t.Table, c.Start, known)
	if !sweep {
		return "", ""
	}
	return "TRUE", cure
}
