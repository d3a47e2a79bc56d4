package mysql

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// storeSettings make the session die soon after its client did, and statements use indexes.
//
//   - The session ends with a client that hangs or is cut off (R12), in a transaction too: wait_timeout is for both.
//   - Locks are not waited for long; a second is the least that all versions know.
//   - READ COMMITTED: no gap is locked, so that what is deleted never stands in the way of what is inserted.
//   - The lists of ids in statements are looked up one by one, however long they are.
func storeSettings(mariadb bool) []string {
	settings := []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION TRANSACTION READ WRITE",
		"SET wait_timeout = 10, interactive_timeout = 10, net_read_timeout = 10, net_write_timeout = 10, " +
			"innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, completion_type = 'NO_CHAIN', sql_safe_updates = 0",
	}
	if mariadb {
		return append(settings, "SET in_predicate_conversion_threshold = 0, idle_transaction_timeout = 10")
	}
	return append(settings, "SET range_optimizer_max_mem_size = 0")
}

// A relaySession is a connection to the database of tailbox's own tables, on which statements go in batches. Once it has taken the pipeline's
// lock, it may write.
type relaySession struct {
	cfg    config
	sess   *session
	schema string
	names  names
	// lock is the lock's name. epoch is the lease_epoch that this session made or found; nobody else may have changed it.
	lock  string
	epoch int64
	// maxPacket is what the server takes in one packet.
	maxPacket int
}

// A stateStore implements checkpoint.Store.
type stateStore struct {
	*relaySession
	tables tables
	store.Memory
	// cautious: an application holds locks on rows that settlements wanted, so they pass over locked rows until there are
	// none. lockedTables are those that were locked as a whole, until when that is taken for granted.
	cautious     bool
	lockedTables map[string]time.Time
	lockedSince  time.Time // zero: the last settlement passed over no table
	feedback     feedback
}

// lockName is the name of the pipeline's lock: names of locks belong to a server, so that of the database is in it.
// They have at most 64 characters.
func lockName(schema, pipeline string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + pipeline))
	return fmt.Sprintf("tailbox:%x", sum[:24])
}

// Open opens a session with the database of the pipeline, and takes the pipeline's lock. It fails with
// checkpoint.ErrLocked while another session holds the lock, and with checkpoint.ErrNoTables before `tailbox init`.
func Open(ctx context.Context, cfg config) (checkpoint.Store, error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openStore(ctx context.Context, cfg config) (*stateStore, error) {
	url := cfg.LockURL
	if url == "" {
		url = cfg.URL
	}
	sess, err := dialRelay(ctx, cfg, url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := newStore(sess)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// newStore is a store on a session.
func newStore(sess *relaySession) *stateStore {
	s := &stateStore{relaySession: sess, Memory: store.NewMemory(), lockedTables: make(map[string]time.Time)}
	s.Finisher = store.Finisher{Logger: s.cfg.logger(), Settle: s.settleUnfinished}
	return s
}

// dialRelay connects, and finds tailbox's tables. It takes no lock.
func dialRelay(ctx context.Context, cfg config, url string) (*relaySession, error) {
	sess, err := cfg.connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := overConn(cfg, sess)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.sess.close(ctx))
	}
	return s, nil
}

// overConn is a session on a connection as it is, without the settings of one that writes.
func overConn(cfg config, sess *session) *relaySession {
	return &relaySession{cfg: cfg, sess: sess, maxPacket: packetBytes, epoch: -1}
}

func (s *relaySession) prepare(ctx context.Context) error {
	if err := s.multipleStatements(ctx); err != nil {
		return storeFault("set up the store's session", err)
	}
	b := s.batch()
	for _, sql := range storeSettings(s.sess.server.mariadb) {
		b.exec(sql)
	}
	b.each(func(r row) error {
		s.maxPacket = int(r.unsigned(0))
		return nil
	}, "SELECT @@max_allowed_packet")
	if err := s.send(ctx, b); err != nil {
		return storeFault("set up the store's session", err)
	}
	return s.findTables(ctx)
}

// open takes the lock, and finds out what statements need to know.
func (s *stateStore) open(ctx context.Context) error {
	err := s.takeLock(ctx)
	if err == nil {
		err = current(ctx, s.sess, s.schema)
	}
	if err == nil {
		s.tables, err = resolveTables(ctx, s.relaySession)
	}
	if err == nil {
		s.feedback, err = newFeedback(&s.cfg, &s.tables)
	}
	if err != nil {
		return err
	}
	if err := s.spareBinlog(ctx); err != nil {
		return err
	}
	return s.Remember(ctx)
}

// takeLock takes the pipeline's lock. It fails with checkpoint.ErrLocked while another session holds it.
func (s *relaySession) takeLock(ctx context.Context) error {
	var id, locked int64
	b := s.batch()
	b.each(func(r row) error {
		id = r.num(0)
		return nil
	}, "SELECT CONNECTION_ID()")
	b.each(func(r row) error {
		locked = r.num(0)
		return nil
	}, "SELECT GET_LOCK(?, 0)", s.lock)
	b.each(func(r row) error {
		s.epoch = r.num(0)
		return nil
	}, "SELECT lease_epoch FROM {checkpoint} WHERE pipeline = ?", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return storeFault("take the pipeline's lock", err)
	}
	if uint32(id) != s.sess.conn.GetConnectionID() {
		return fmt.Errorf("%w: the connection goes through a proxy, where a lock does not belong to one client: "+
			"set source.lock_url to a direct connection", source.ErrStop)
	}
	if locked != 1 {
		return s.lockedBy(ctx)
	}
	return nil
}

// spareBinlog keeps what the relay deletes out of the binlog but for its keys: payloads would be written, sent and skipped a second
// time. The server allows it to accounts with SESSION_VARIABLES_ADMIN (MariaDB: BINLOG ADMIN); without, whole rows are written. Where the
// relay updates rows of the application they are written whole, since others may read them.
func (s *stateStore) spareBinlog(ctx context.Context) error {
	for _, t := range s.cfg.Tables {
		if t.OnDelivered == outbox.Mark || t.Columns.Receipt != "" || len(t.Feedback) > 0 {
			return nil // what reads the rows of business tables from the binlog is to find all of them
		}
	}
	_, err := s.sess.exec(ctx, "SET SESSION binlog_row_image = 'MINIMAL'")
	if err != nil && serverError(err) == nil {
		return storeFault("set up the store's session", err)
	}
	return nil
}

// findTables finds the database of the relay's tables, and looks whether they are there.
func (s *relaySession) findTables(ctx context.Context) error {
	found := 0
	b := s.batch()
	b.each(func(r row) error {
		s.schema = r.text(0)
		found++
		return nil
	}, `SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(?, DATABASE())
		AND TABLE_NAME IN ('tailbox_checkpoint', 'tailbox_parked', 'tailbox_request')`, orNull(s.cfg.Schema))
	if err := s.send(ctx, b); err != nil {
		return storeFault("look for the relay's tables", err)
	}
	if found < 3 {
		schema := s.cfg.Schema
		if schema == "" {
			schema = "of source.url"
		}
		return fmt.Errorf("%w: database %s: %w", source.ErrStop, schema, checkpoint.ErrNoTables)
	}
	s.names, s.lock = tableNames(s.schema), lockName(strings.ToLower(s.schema), s.cfg.Pipeline)
	return nil
}

// begin queues the beginning of a transaction that writes, and the proof that the session may: it holds the lock, and
// nobody has held it since. The checkpoint's row is locked, so that this stays so until the transaction ends. It returns
// where the server's time goes.
func (s *relaySession) begin(b *batch) *time.Time {
	now := new(time.Time)
	b.exec("START TRANSACTION")
	b.each(func(r row) (err error) {
		if !r.bool(1) {
			return errLost
		}
		*now, err = r.time(0)
		return err
	}, "SELECT UTC_TIMESTAMP(6), IS_USED_LOCK(?) <=> CONNECTION_ID()", s.lock)
	b.queue(func(a answer) error {
		if found := len(a.rows) > 0; found != (s.epoch >= 0) || found && a.rows[0].num(0) != s.epoch {
			return errLost
		}
		return nil
	}, "SELECT lease_epoch FROM {checkpoint} WHERE pipeline = ? FOR UPDATE", s.cfg.Pipeline)
	return now
}

// inTx runs what f queues in a transaction of the session: the first answers are there before it is committed.
func (s *relaySession) inTx(ctx context.Context, f func(b *batch)) error {
	b := s.batch()
	s.begin(b)
	f(b)
	if err := s.send(ctx, b); err != nil {
		return errors.Join(err, s.rollback(ctx))
	}
	b.exec("COMMIT")
	return s.send(ctx, b)
}

// rollback ends a failed transaction, so that the session can be used again. On a dead session there is nothing to end.
func (s *relaySession) rollback(ctx context.Context) error {
	if s.sess.broken {
		return nil
	}
	b := s.batch()
	b.exec("ROLLBACK")
	if err := s.send(ctx, b); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Ping proves that the session lives, and that the lock is its own.
func (s *stateStore) Ping(ctx context.Context) (now time.Time, err error) {
	b := s.batch()
	s.queueProof(b)
	queueClock(b, &now)
	if err := s.send(ctx, b); err != nil {
		return time.Time{}, storeFault("ping", err)
	}
	return now, nil
}

// queueProof asks whether the lock is the session's own.
func (s *relaySession) queueProof(b *batch) {
	b.each(func(r row) error {
		if !r.bool(0) {
			return errLost
		}
		return nil
	}, "SELECT IS_USED_LOCK(?) <=> CONNECTION_ID()", s.lock)
}

// Close ends the session, and with it the lock. An end by Close is a clean one: where nothing was settled, it takes the
// count of Load back, and what Starting wrote down, or a later crash would be laid at that message's door.
func (s *stateStore) Close(ctx context.Context) error {
	last, cancel := context.WithTimeout(ctx, source.CloseTime)
	defer cancel()
	var err error
	if !s.sess.broken && (s.Unclean || s.Started) {
		err = s.inTx(last, func(b *batch) {
			b.exec(`UPDATE {checkpoint} SET unclean_starts = ?, started = NULL WHERE pipeline = ?`, s.UncleanBefore, s.cfg.Pipeline)
		})
	}
	return errors.Join(err, s.release(last))
}

// release gives the lock back, and ends the session. The lock is released by itself before, since the server ends a session only some time
// after its client has left.
func (s *relaySession) release(ctx context.Context) error {
	last, cancel := context.WithTimeout(ctx, source.CloseTime)
	defer cancel()
	var err error
	if !s.sess.broken {
		b := s.batch()
		b.exec("SELECT RELEASE_LOCK(?)", s.lock)
		err = s.send(last, b)
	}
	return errors.Join(err, s.sess.close(ctx))
}
