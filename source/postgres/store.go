package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// lockKey is the key of the pipeline's advisory lock: the first 8 bytes of SHA-256 of "tailbox:" and the name, as a
// bigint. Advisory locks belong to a database, so pipelines of one name in two databases do not meet.
func lockKey(pipeline string) int64 {
	sum := sha256.Sum256([]byte("tailbox:" + pipeline))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// storeSettings make the session die soon after its client did, and every commit durable.
//
//   - synchronous_commit is always set: where a role or database has it off, a checkpoint would be confirmed to the server
//     before it is on disk, and a crash would lose messages that the log no longer holds. A stricter value
//     (remote_apply) is left as it is.
//   - The idle timeouts end the lock with a client that hangs or is cut off (R12).
//   - statement_timeout is off: it would end a COMMIT that waits for a standby with a success that is none.
//   - An outbox fills and empties faster than statistics follow, and all statements of this session look up few rows by
//     index. So a plan serves all values, is dropped after about a second (see Due), and one that reads a whole table is ruled
//     out; jit would take the penalty that rules it out for real cost.
//   - A row that row-level security hides would look like one that the application removed. row_security=off makes the
//     statement fail instead.
const storeSettings = `SELECT set_config(name, value, false) FROM (VALUES
	('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END),
	('idle_session_timeout', '10s'), ('idle_in_transaction_session_timeout', '10s'),
	('statement_timeout', '0'), ('lock_timeout', '2s'), ('default_transaction_isolation', 'read committed'),
	('default_transaction_read_only', 'off'), ('default_transaction_deferrable', 'off'), ('row_security', 'off'),
	('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'),
	('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
	('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
	('tcp_user_timeout', '10000'), ('transaction_timeout', '0')) AS s (name, value)
	WHERE name <> 'transaction_timeout' OR EXISTS (SELECT FROM pg_catalog.pg_settings p WHERE p.name = 'transaction_timeout')`

// A stateStore implements checkpoint.Store. Its file names tell the parts: store_load, store_due, store_pending, settle,
// parked, requests.
type stateStore struct {
	cfg  Config
	conn *pgx.Conn
	// encoding is the database's: what texts of ours can be written.
	encoding encoding
	schema   string
	names    names
	path     rolePath
	texts    map[string]string // statements with the tables' names put in
	tables   tables

	store.Memory
	// taking: the slot is to be taken over, and becomes the pipeline's own with the first checkpoint.
	taking bool
	// cautious: an application holds locks on rows that settlements wanted, so they pass over locked rows until there are
	// none.
	cautious bool
	// lockedTables are those that the last settlement found locked as a whole.
	lockedTables map[string]bool
	// requestsLocked: others hold a lock on the table of requests, so they wait, and no failures of feedback are written there.
	requestsLocked bool
	// named: the last settlement missed rows, so the next one asks which are there.
	named    bool
	feedback feedback
}

// Open opens a session with the database of the pipeline, and takes the pipeline's lock. It fails with
// checkpoint.ErrLocked while another session holds the lock, and with checkpoint.ErrNoTables before `tailbox init`.
func (cfg Config) Open(ctx context.Context) (checkpoint.Store, error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openStore(ctx context.Context, cfg Config) (*stateStore, error) {
	conn, err := cfg.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &stateStore{cfg: cfg, conn: conn, encoding: encodingOf(conn.PgConn()), texts: make(map[string]string), Memory: store.NewMemory()}
	s.Finisher = store.Finisher{Logger: cfg.logger(), Settle: s.settleUnfinished}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, closeConn(ctx, conn))
	}
	return s, nil
}

func (s *stateStore) open(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, storeSettings); err != nil {
		return s.fault("set up the store's session", err)
	}
	// Not on every platform; a hung client is found by the idle timeouts as well, only not within a statement.
	if _, err := s.conn.Exec(ctx, "SET client_connection_check_interval = '5s'"); err != nil && sqlState(err) == "" {
		return s.fault("set up the store's session", err)
	}
	var standby, locked bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return s.fault("look whether the server is the primary", err)
	}
	if standby {
		return errStandby("open the session for the lock")
	}
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey(s.cfg.Pipeline)).Scan(&locked); err != nil {
		return s.fault("take the pipeline's lock", err)
	}
	if !locked {
		return s.lockedBy(ctx)
	}
	if err := s.cfg.onePlace(ctx, s.conn); err != nil { // takes a connection more, which a standby need not take each second
		return err
	}
	if err := s.findTables(ctx); err != nil {
		return err
	}
	if err := s.current(ctx); err != nil {
		return err
	}
	var err error
	if s.tables, err = resolveTables(ctx, s.conn, &s.cfg); err != nil {
		return err
	}
	if s.feedback, err = newFeedback(&s.cfg, &s.tables); err != nil {
		return err
	}
	return s.Remember(ctx)
}

// findTables finds the schema of the relay's tables, and looks whether they are there.
func (s *stateStore) findTables(ctx context.Context) error {
	s.path = rolePathOf(s.conn.PgConn())
	s.schema = cmp.Or(s.cfg.Schema, s.path.schema())
	s.names = tableNames(s.schema)
	var have bool
	err := s.conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AND to_regclass($3) IS NOT NULL`,
		s.names.checkpoint, s.names.parked, s.names.request).Scan(&have)
	if err != nil {
		return s.fault("look for the relay's tables", err)
	}
	if !have {
		return fmt.Errorf("%w: schema %q: %w", source.ErrStop, s.schema, checkpoint.ErrNoTables)
	}
	return nil
}

// q is a statement with the relay's tables named.
func (s *stateStore) q(sql string) string {
	text, ok := s.texts[sql]
	if !ok {
		text = s.names.expand(sql)
		s.texts[sql] = text
	}
	return text
}

// send runs a batch in one round trip, and calls the functions that its queries queued.
func (s *stateStore) send(ctx context.Context, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return s.conn.SendBatch(ctx, b).Close()
}

// inTx runs f in a transaction of the session.
func (s *stateStore) inTx(ctx context.Context, f func() error) error {
	if _, err := s.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, s.rollback(ctx))
	}
	_, err := s.conn.Exec(ctx, "COMMIT")
	return err
}

// rollback ends a failed transaction, so that the session can be used again. On a dead session there is nothing to end.
func (s *stateStore) rollback(ctx context.Context) error {
	if s.conn.IsClosed() {
		return nil
	}
	if _, err := s.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Ping proves that the session lives, and with it the lock.
func (s *stateStore) Ping(ctx context.Context) (now time.Time, err error) {
	if err := s.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, s.fault("ping", err)
	}
	return now, nil
}

// Close ends the session, and with it the lock. An end by Close is a clean one: where nothing was settled, it takes the
// count of Load back, and what Starting wrote down, or a later crash would be laid at that message's door. The lock is released by itself before, since the server ends a session only some time after its client
// has left.
func (s *stateStore) Close(ctx context.Context) error {
	var err error
	if !s.conn.IsClosed() && s.conn.PgConn().TxStatus() == 'I' {
		last, cancel := context.WithTimeout(ctx, source.CloseTime)
		defer cancel()
		b := &pgx.Batch{}
		if s.Unclean || s.Started {
			b.Queue(s.q(`UPDATE {checkpoint} SET unclean_starts = $2, started = NULL WHERE pipeline = $1`), s.cfg.Pipeline,
				s.UncleanBefore)
		}
		b.Queue("SELECT pg_advisory_unlock_all()")
		err = s.send(last, b)
	}
	return errors.Join(err, closeConn(ctx, s.conn))
}

// fault says what was done when an error came up, and turns errors that only an operator can mend into source.ErrStop.
func (s *stateStore) fault(doing string, err error) error {
	return storeFault(doing, err)
}
