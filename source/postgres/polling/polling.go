// Package polling reads an outbox table in the order of its sequence column, for servers whose log cannot be read.
package polling

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/snapshot"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// A Source reads an outbox table in the order of its sequence column, where the log cannot be read. It needs no slot, no
// publication and no right to replicate. See source.Source for its methods, and package poll for what positions are.
type Source struct {
	poll.Source
	cfg  session.Config
	seen upstream.ServerMemory
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg session.Config) *Source {
	cfg.MaxMessage, cfg.Poll = source.MaxMessage(cfg.MaxMessage), true
	cfg.Logger = cfg.Log()
	s := &Source{cfg: cfg}
	s.Source = poll.NewSource(func(ctx context.Context) (poll.Session, error) { return open(ctx, &s.cfg) }, changed, cfg.Logger)
	return s
}

// changed reports whether the server refused a statement because the table, or the rights to it, changed.
func changed(err error) bool {
	state := pgerr.State(err)
	return len(state) == 5 && state[:2] == "42"
}

// settings make the planner walk along the index on the sequence column, because the table fills and empties faster than statistics follow. They let
// a statement see all that was committed before it began.
const settings = `SELECT pg_catalog.set_config(name, value, false) FROM (VALUES ('default_transaction_isolation', 'read committed'),
	('default_transaction_read_only', 'on'), ('default_transaction_deferrable', 'off'), ('row_security', 'off'),
	('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off')) AS s (name, value)`

// open opens a session for polling, and looks the table up.
func open(ctx context.Context, c *session.Config) (*table, error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{session.NoTimeouts, settings} {
		if err := session.Exec(ctx, conn.PgConn(), sql); err != nil {
			return nil, errors.Join(fmt.Errorf("set up session: %w", err), session.Close(ctx, conn))
		}
	}
	t, err := openTable(ctx, c, conn)
	if err != nil {
		return nil, errors.Join(err, session.Close(ctx, conn))
	}
	return t, nil
}

// Examine implements source.Source. A SourceID is an upstream.ID, as that of a source that reads the log.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return Examine(ctx, &s.cfg, sourceID, from, &s.seen)
}

// Examine compares a checkpoint with the server. Numbers that a failover lost are drawn again, and no history tells which:
// at another timeline the position is lost, and the sweep finds what is pending.
func Examine(ctx context.Context, c *session.Config, sourceID string, from source.Resume, seen *upstream.ServerMemory) (e *source.Examined, err error) {
	t, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	e = &source.Examined{}
	if e.SourceID, err = upstream.IDOf(ctx, t.conn); err != nil {
		return nil, fmt.Errorf("name the server: %w", err)
	}
	before, id := upstream.ParseID(sourceID), upstream.ParseID(e.SourceID)
	defer func() {
		if err == nil {
			seen.Note(id, 0)
		}
	}()
	if from == "" {
		return e, nil
	}
	elsewhere := ""
	if sourceID != "" && before.History != id.History {
		elsewhere = fmt.Sprintf("the checkpoint belongs to server and timeline %s, this is %s, where numbers may have been drawn again", before.History, id.History)
	}
	if e.Lost, err = poll.Lost(ctx, t, from, elsewhere); err != nil {
		return nil, err
	}
	e.Moved, e.Shared = sourceID != "" && e.Lost == "" && !seen.Same(before, id, 0), math.MaxUint64
	return e, nil
}

// Snapshot implements poll.Session. The rows that belong to it are those up to the position, and those that the sequence never gave.
func (t *table) Snapshot(ctx context.Context, at uint64) (poll.Snapshot, error) {
	const open = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_catalog.pg_current_snapshot()"
	if err := session.Exec(ctx, t.conn.PgConn(), open); err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	last, _, err := t.Last(ctx)
	if err != nil {
		return nil, err
	}
	within := fmt.Sprintf("(%[1]s <= %[2]d OR %[1]s > %[3]d)", "t."+sqltext.Ident(t.seq), at, last)
	return &snapshot.Tables{Cfg: t.cfg, Conn: t.conn, Within: within}, nil
}
