// Package store keeps the relay's state in Postgres: the checkpoint, parked deliveries and requests of operators, and what is written to
// the rows of outbox tables, all under the pipeline's lock.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store/relational"
)

// settings make the session die soon after its client did, and every commit durable.
//
//   - synchronous_commit is always set: where a role or database has it off, a checkpoint would be confirmed to the server
//     before it is on disk, and a crash would lose messages that the log no longer holds. A stricter value
//     (remote_apply) is left as it is.
//   - The idle timeouts end the lock with a client that hangs or is cut off (R12).
//   - statement_timeout is off: it would end a COMMIT that waits for a standby with a success that is none.
//   - An outbox fills and empties faster than statistics follow, and all statements of this session look up few rows by
//     index. So a plan serves all values, and lives about a second (see Due). A plan that reads a whole table gets a penalty that rules it out. jit is
//     off, because it would take that penalty for real cost.
//   - A row that row-level security hides would look like one that the application removed. row_security=off makes the
//     statement fail instead.
const settings = `SELECT set_config(name, value, false) FROM (VALUES
	('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END),
	('idle_session_timeout', '10s'), ('idle_in_transaction_session_timeout', '10s'),
	('statement_timeout', '0'), ('lock_timeout', '2s'), ('default_transaction_isolation', 'read committed'),
	('default_transaction_read_only', 'off'), ('default_transaction_deferrable', 'off'), ('row_security', 'off'),
	('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'),
	('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
	('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
	('tcp_user_timeout', '10000'), ('transaction_timeout', '0')) AS s (name, value)
	WHERE name <> 'transaction_timeout' OR EXISTS (SELECT FROM pg_catalog.pg_settings p WHERE p.name = 'transaction_timeout')`

// A Store implements checkpoint.Store. Its file names tell the parts: load, due, pending, settle, parked, requests, and operator for what
// is asked without the lock.
type Store struct {
	Cfg session.Config
	// Conn is the session. That of a Store that Open returned holds the lock.
	Conn *pgx.Conn
	// Schema holds the relay's tables, and Names are theirs, once FindTables found them.
	Schema string
	Names  migrate.Tables
	// encoding is the database's: what texts of ours can be written.
	encoding session.Encoding
	path     session.Path
	texts    map[string]string // statements with the tables' names put in
	tables   usertable.Tables

	relational.Core
	// taking: the slot is to be taken over, and becomes the pipeline's own with the first checkpoint.
	taking bool
	locks  tableLocks
	// named: the last settlement missed rows, so the next one asks which are there.
	named    bool
	prepared preparation
}

// On returns a store on a session that is open already. It has no lock: it only looks, or writes requests.
func On(cfg session.Config, conn *pgx.Conn) *Store {
	s := &Store{Cfg: cfg, Conn: conn, encoding: session.EncodingOf(conn.PgConn()), texts: make(map[string]string),
		locks:    tableLocks{conn: conn, log: cfg.Log()},
		prepared: preparation{of: make(map[*source.Feedback]*pgconn.StatementDescription)}}
	s.Init(s, cfg.Log(), cfg.Poll)
	return s
}

// Open opens a session with the database of the pipeline, and takes the pipeline's lock. It fails with
// checkpoint.ErrLocked while another session holds the lock, and with checkpoint.ErrNoTables before `tailbox init`.
func Open(ctx context.Context, cfg session.Config) (*Store, error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := On(cfg, conn)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, session.Close(ctx, conn))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if _, err := s.Conn.Exec(ctx, settings); err != nil {
		return s.Fault("set up the store's session", err)
	}
	// Not on every platform; a hung client is found by the idle timeouts as well, only not within a statement.
	if _, err := s.Conn.Exec(ctx, "SET client_connection_check_interval = '5s'"); err != nil && pgerr.State(err) == "" {
		return s.Fault("set up the store's session", err)
	}
	var standby, locked bool
	if err := s.Conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return s.Fault("look whether the server is the primary", err)
	}
	if standby {
		return upstream.StandbyError("open the session for the lock")
	}
	if err := s.Conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", LockKey(s.Cfg.Pipeline)).Scan(&locked); err != nil {
		return s.Fault("take the pipeline's lock", err)
	}
	if !locked {
		return s.lockedBy(ctx)
	}
	// OnePlace opens one more connection. A standby, which asks for the lock each second, should not open one each time.
	if err := s.Cfg.OnePlace(ctx, s.Conn); err != nil {
		return err
	}
	if err := s.FindTables(ctx); err != nil {
		return err
	}
	if err := s.current(ctx); err != nil {
		return err
	}
	var err error
	if s.tables, err = usertable.ResolveAll(ctx, s.Conn, &s.Cfg); err != nil {
		return err
	}
	if err := s.InitFeedback(source.ParseFeedback, s.Cfg.Feedback); err != nil {
		return err
	}
	return s.Remember(ctx)
}

// FindTables finds the schema of the relay's tables, and checks that they exist.
func (s *Store) FindTables(ctx context.Context) error {
	s.path = session.PathOf(s.Conn.PgConn())
	s.Schema = cmp.Or(s.Cfg.Schema, s.path.Schema())
	s.Names = migrate.TablesIn(s.Schema)
	var have bool
	err := s.Conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AND to_regclass($3) IS NOT NULL`,
		s.Names.Checkpoint, s.Names.Parked, s.Names.Request).Scan(&have)
	if err != nil {
		return s.Fault("look for the relay's tables", err)
	}
	if !have {
		return fmt.Errorf("%w: schema %q: %w", source.ErrStop, s.Schema, checkpoint.ErrNoTables)
	}
	return nil
}

// SQL is a statement with the relay's tables named.
func (s *Store) SQL(sql string) string {
	text, ok := s.texts[sql]
	if !ok {
		text = s.Names.Expand(sql)
		s.texts[sql] = text
	}
	return text
}

// send runs a batch in one round trip, and calls the functions that its queries queued.
func (s *Store) send(ctx context.Context, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return s.Conn.SendBatch(ctx, b).Close()
}

// InTx runs f in a transaction of the session.
func (s *Store) InTx(ctx context.Context, f func() error) error {
	if _, err := s.Conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, s.rollback(ctx))
	}
	_, err := s.Conn.Exec(ctx, "COMMIT")
	return err
}

// rollback ends a failed transaction, so that the session can be used again. On a dead session there is nothing to end.
func (s *Store) rollback(ctx context.Context) error {
	if s.Conn.IsClosed() {
		return nil
	}
	if _, err := s.Conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Tables implements relational.Database.
func (s *Store) Tables() []relational.Table {
	out := make([]relational.Table, len(s.tables.Order))
	for i, t := range s.tables.Order {
		out[i] = relational.Table{Table: &t.Table, View: &t.View, Findable: t.Findable}
	}
	return out
}

// Ping proves that the session lives, and with it the lock.
func (s *Store) Ping(ctx context.Context) (now time.Time, err error) {
	if err := s.Conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, s.Fault("ping", err)
	}
	return now, nil
}

// Close ends the session, and with it the lock. If nothing was settled, it first takes back that Load counted the start as unclean, and deletes what
// Starting recorded: otherwise a later crash would count against that message. It releases the lock itself, because the server ends a session only
// some time after its client has left.
func (s *Store) Close(ctx context.Context) error {
	var err error
	if !s.Conn.IsClosed() && s.Conn.PgConn().TxStatus() == 'I' {
		last, cancel := context.WithTimeout(ctx, source.CloseTime)
		defer cancel()
		b := &pgx.Batch{}
		if s.Unclean || s.Started {
			b.Queue(s.SQL(`UPDATE {checkpoint} SET unclean_starts = $2, started = NULL WHERE pipeline = $1`), s.Cfg.Pipeline,
				s.UncleanBefore)
		}
		b.Queue("SELECT pg_advisory_unlock_all()")
		err = s.send(last, b)
	}
	return errors.Join(err, session.Close(ctx, s.Conn))
}

// Fault says what was done when an error came up, and turns errors that only an operator can mend into source.ErrStop.
func (s *Store) Fault(doing string, err error) error {
	return pgerr.Fault(doing, err)
}

// current refuses the relay's tables if migrations are missing, because statements name the columns that these add, or if a newer version has
// changed what the tables mean.
func (s *Store) current(ctx context.Context) error {
	state, err := s.Names.State(ctx, s.Conn)
	if err != nil {
		return err
	}
	if err := state.Refusal(migrate.All()); err != nil {
		return fmt.Errorf("%w: schema %q: %w", source.ErrStop, s.Schema, err)
	}
	return nil
}
