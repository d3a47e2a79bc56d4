package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// A Holder is a session of the server.
type Holder struct {
	ID     int64  `json:"id"`
	User   string `json:"user"`
	Client string `json:"client"` // host and port, or localhost; "" if this account may not see it
	// Foreign: the session is no tailbox of this pipeline.
	Foreign bool `json:"foreign"`
}

// String is the session as people find it.
func (h *Holder) String() string {
	if h.User == "" {
		return fmt.Sprintf("connection %d of another account, which is shown to accounts with PROCESS alone", h.ID)
	}
	return fmt.Sprintf("user %s from %s, connection %d", h.User, h.Client, h.ID)
}

// lockedBy is the error for a lock that somebody else holds.
func (s *Session) lockedBy(ctx context.Context) error {
	h, err := s.Holder(ctx)
	if err != nil {
		return err
	}
	locked := &checkpoint.LockedError{Pipeline: s.Config.Pipeline}
	if h != nil {
		locked.Holder, locked.Foreign, locked.Fix = h.String(), h.Foreign, fmt.Sprintf("KILL %d", h.ID)
	}
	return locked
}

// Holder finds who holds the lock; nil for nobody. The lock's name is no secret, so it may be anybody: a relay of this pipeline is known by its
// user. Sessions of others are shown to accounts with PROCESS alone.
func (s *Session) Holder(ctx context.Context) (h *Holder, err error) {
	b := s.Batch()
	own := ""
	b.Each(func(row Row) error {
		own = row.Text(1)
		if !row.Null(0) {
			h = &Holder{ID: row.Num(0), Foreign: true}
		}
		return nil
	}, "SELECT IS_USED_LOCK(?), SUBSTRING_INDEX(USER(), '@', 1)", s.Lock)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("look for the lock's holder", err)
	}
	if h == nil {
		return nil, nil
	}
	// The view PROCESSLIST would fail while any session is at a statement with a character that utf8mb3 lacks.
	b = s.Batch()
	b.Each(func(row Row) error {
		const id, user, client = 0, 1, 2
		if row.Num(id) == h.ID {
			h.User, h.Client, h.Foreign = row.Text(user), row.Text(client), row.Text(user) != own
		}
		return nil
	}, "SHOW PROCESSLIST")
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("look for the lock's holder", err)
	}
	return h, nil
}

// TakeLock takes the pipeline's lock. It fails with checkpoint.ErrLocked while another session holds it.
func (s *Session) TakeLock(ctx context.Context) error {
	var id, locked int64
	b := s.Batch()
	b.Each(func(r Row) error {
		id = r.Num(0)
		return nil
	}, "SELECT CONNECTION_ID()")
	b.Each(func(r Row) error {
		locked = r.Num(0)
		return nil
	}, "SELECT GET_LOCK(?, 0)", s.Lock)
	b.Each(func(r Row) error {
		s.Epoch = r.Num(0)
		return nil
	}, "SELECT lease_epoch FROM {checkpoint} WHERE pipeline = ?", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("take the pipeline's lock", err)
	}
	if uint32(id) != s.Conn.Client.GetConnectionID() {
		return fmt.Errorf("%w: the connection goes through a proxy that shares sessions, so tailbox cannot hold its lock there: "+
			"set source.lock_url to a direct connection", source.ErrStop)
	}
	if locked != 1 {
		return s.lockedBy(ctx)
	}
	return nil
}

// Begin queues the beginning of a transaction that writes, and the proof that the session may: it holds the lock, and
// nobody has held it since. The checkpoint's row is locked, so that this stays so until the transaction ends. It returns
// where the server's time goes.
func (s *Session) Begin(b *Batch) *time.Time {
	now := new(time.Time)
	b.Exec("START TRANSACTION")
	b.Each(func(r Row) (err error) {
		if !r.Bool(1) {
			return ErrLost
		}
		*now, err = r.Time(0)
		return err
	}, "SELECT UTC_TIMESTAMP(6), IS_USED_LOCK(?) <=> CONNECTION_ID()", s.Lock)
	b.Queue(func(a Answer) error {
		if found := len(a.Rows) > 0; found != (s.Epoch >= 0) || found && a.Rows[0].Num(0) != s.Epoch {
			return ErrLost
		}
		return nil
	}, "SELECT lease_epoch FROM {checkpoint} WHERE pipeline = ? FOR UPDATE", s.Config.Pipeline)
	return now
}

// InTx runs what f queues in a transaction of the session: the first answers are there before it is committed.
func (s *Session) InTx(ctx context.Context, f func(b *Batch)) error {
	b := s.Batch()
	s.Begin(b)
	f(b)
	if err := s.Send(ctx, b); err != nil {
		return errors.Join(err, s.Rollback(ctx))
	}
	b.Exec("COMMIT")
	return s.Send(ctx, b)
}

// Rollback ends a failed transaction, so that the session can be used again. On a dead session there is nothing to end.
func (s *Session) Rollback(ctx context.Context) error {
	if s.Conn.Broken {
		return nil
	}
	b := s.Batch()
	b.Exec("ROLLBACK")
	if err := s.Send(ctx, b); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// QueueProof asks whether the lock is the session's own.
func (s *Session) QueueProof(b *Batch) {
	b.Each(func(r Row) error {
		if !r.Bool(0) {
			return ErrLost
		}
		return nil
	}, "SELECT IS_USED_LOCK(?) <=> CONNECTION_ID()", s.Lock)
}

// Release gives the lock back, and ends the session. The lock is released by itself before, since the server ends a session only some time
// after its client has left.
func (s *Session) Release(ctx context.Context) error {
	last, cancel := context.WithTimeout(ctx, source.CloseTime)
	defer cancel()
	var err error
	if !s.Conn.Broken {
		b := s.Batch()
		b.Exec("SELECT RELEASE_LOCK(?)", s.Lock)
		err = s.Send(last, b)
	}
	return errors.Join(err, s.Conn.Close(ctx))
}

// ErrLost means that the session lives, and the lock is not its own. Somebody between the relay and the server has changed the
// session (a proxy that reconnects), or another server of a cluster has given the lock to another relay.
var ErrLost = errors.New("the session has lost the pipeline's lock")
