// Package store keeps the state of a relay in the user's database: the checkpoint, parked deliveries and requests of operators. It settles
// outcomes, and the user's rows with them, in one transaction. Package source/store decides; this one has the statements.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store/relational"
)

// A Store implements checkpoint.Store, on a session that holds the pipeline's lock. Without the lock it only reads, and writes requests.
type Store struct {
	*session.Session
	tables usertable.Tables
	relational.Core
	// lockedTables are those that were locked as a whole, until when that is taken for granted.
	lockedTables map[string]time.Time
	lockedSince  time.Time // zero: the last settlement passed over no table
}

// Open opens a session with the database of the pipeline, and takes the pipeline's lock. It fails with
// checkpoint.ErrLocked while another session holds the lock, and with checkpoint.ErrNoTables before `tailbox init`.
func Open(ctx context.Context, cfg server.Config) (checkpoint.Store, error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openStore(ctx context.Context, cfg server.Config) (*Store, error) {
	url := cfg.LockURL
	if url == "" {
		url = cfg.URL
	}
	sess, err := session.Dial(ctx, cfg, url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := New(sess)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// New is a store on a session.
func New(sess *session.Session) *Store {
	s := &Store{Session: sess, lockedTables: make(map[string]time.Time)}
	s.Init(s, s.Config.Log(), s.Config.Poll)
	return s
}

// open takes the lock, and finds out what statements need to know.
func (s *Store) open(ctx context.Context) error {
	err := s.TakeLock(ctx)
	if err == nil {
		err = schema.Current(ctx, s.Conn, s.Schema)
	}
	if err == nil {
		s.tables, err = usertable.ResolveAll(ctx, s.Session)
	}
	if err == nil {
		err = s.InitFeedback(source.ParseFeedbackMySQL, s.Config.Feedback)
	}
	if err != nil {
		return err
	}
	if err := s.spareBinlog(ctx); err != nil {
		return err
	}
	return s.Remember(ctx)
}

// spareBinlog keeps what the relay deletes out of the binlog but for its keys: payloads would be written, sent and skipped a second
// time. The server allows it to accounts with SESSION_VARIABLES_ADMIN (MariaDB: BINLOG ADMIN); without, whole rows are written. If the
// relay marks rows, or writes receipts or feedback, they are written whole, since others may read them.
func (s *Store) spareBinlog(ctx context.Context) error {
	for _, t := range s.Config.Tables {
		if t.OnDelivered == outbox.Mark || t.Columns.Receipt != "" || len(t.Feedback) > 0 {
			return nil // what reads the rows of business tables from the binlog is to find all of them
		}
	}
	_, err := s.Conn.Exec(ctx, "SET SESSION binlog_row_image = 'MINIMAL'")
	if err != nil && server.Answer(err) == nil {
		return server.Fault("set up the store's session", err)
	}
	return nil
}

// Fault implements relational.Database.
func (s *Store) Fault(doing string, err error) error { return server.Fault(doing, err) }

// Tables implements relational.Database.
func (s *Store) Tables() []relational.Table {
	out := make([]relational.Table, len(s.tables.Order))
	for i, t := range s.tables.Order {
		out[i] = relational.Table{Table: &t.Table, View: &t.View, Findable: t.Findable}
	}
	return out
}

// Prove implements relational.Database.
func (s *Store) Prove(ctx context.Context) error {
	b := s.Batch()
	s.QueueProof(b)
	return s.Send(ctx, b)
}

// Ping proves that the session lives, and that the lock is its own.
func (s *Store) Ping(ctx context.Context) (now time.Time, err error) {
	b := s.Batch()
	s.QueueProof(b)
	queueClock(b, &now)
	if err := s.Send(ctx, b); err != nil {
		return time.Time{}, server.Fault("ping", err)
	}
	return now, nil
}

// Close ends the session, and with it the lock. An end by Close is a clean one: where nothing was settled, it takes the
// count of Load back, and what Starting wrote down, or a later crash would be laid at that message's door.
func (s *Store) Close(ctx context.Context) error {
	last, cancel := context.WithTimeout(ctx, source.CloseTime)
	defer cancel()
	var err error
	if !s.Conn.Broken && (s.Unclean || s.Started) {
		err = s.InTx(last, func(b *session.Batch) {
			b.Exec(`UPDATE {checkpoint} SET unclean_starts = ?, started = NULL WHERE pipeline = ?`, s.UncleanBefore, s.Config.Pipeline)
		})
	}
	return errors.Join(err, s.Release(last))
}
