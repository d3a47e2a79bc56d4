// Package session runs statements on tailbox's own tables: in batches, with few round trips, and in transactions that prove that the session
// still holds the pipeline's lock.
package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
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

// A Session is a connection to the database of tailbox's own tables, on which statements go in batches. Once it has taken the pipeline's
// lock, it may write.
type Session struct {
	Config server.Config
	Conn   *server.Conn
	Schema string
	names  schema.Names
	// Lock is the lock's name. Epoch is the lease_epoch that this session made or found; nobody else may have changed it.
	Lock  string
	Epoch int64
	// MaxPacket is what the server takes in one packet.
	MaxPacket int
}

// Dial connects, and finds tailbox's tables. It takes no lock.
func Dial(ctx context.Context, cfg server.Config, url string) (*Session, error) {
	sess, err := cfg.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := On(cfg, sess)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Conn.Close(ctx))
	}
	return s, nil
}

// On is a session on a connection as it is, without the settings of one that writes.
func On(cfg server.Config, sess *server.Conn) *Session {
	return &Session{Config: cfg, Conn: sess, MaxPacket: packetBytes, Epoch: -1}
}

func (s *Session) prepare(ctx context.Context) error {
	if err := s.multipleStatements(ctx); err != nil {
		return server.Fault("set up the store's session", err)
	}
	b := s.Batch()
	for _, sql := range storeSettings(s.Conn.Server.MariaDB) {
		b.Exec(sql)
	}
	b.Each(func(r Row) error {
		s.MaxPacket = int(r.Unsigned(0))
		return nil
	}, "SELECT @@max_allowed_packet")
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("set up the store's session", err)
	}
	return s.findTables(ctx)
}

// findTables finds the database of the relay's tables, and looks whether they are there.
func (s *Session) findTables(ctx context.Context) error {
	found := 0
	b := s.Batch()
	b.Each(func(r Row) error {
		s.Schema = r.Text(0)
		found++
		return nil
	}, `SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(?, DATABASE())
		AND TABLE_NAME IN ('tailbox_checkpoint', 'tailbox_parked', 'tailbox_request')`, quote.OrNull(s.Config.Schema))
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("look for the relay's tables", err)
	}
	if found < 3 {
		schema := s.Config.Schema
		if schema == "" {
			schema = "of source.url"
		}
		return fmt.Errorf("%w: database %s: %w", source.ErrStop, schema, checkpoint.ErrNoTables)
	}
	s.names, s.Lock = schema.NamesIn(s.Schema), schema.LockName(strings.ToLower(s.Schema), s.Config.Pipeline)
	return nil
}
