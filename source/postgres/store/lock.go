package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// A Holder is the session that holds the pipeline's lock.
type Holder struct {
	PID         int       `json:"pid"`
	Role        string    `json:"role"`
	Application string    `json:"application_name"`
	Client      string    `json:"client"` // address; "" for a Unix socket
	Since       time.Time `json:"since"`
	// Foreign: the session is no tailbox of this pipeline.
	Foreign bool `json:"foreign"`
}

// String names the session by what pg_stat_activity shows of it.
func (h *Holder) String() string {
	return fmt.Sprintf("role %s, pid %d, application_name %s", h.Role, h.PID, h.Application)
}

// endSQL ends the session.
func (h *Holder) endSQL() string { return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID) }

// lockedBy is the error for a lock that somebody else holds.
func (s *Store) lockedBy(ctx context.Context) error {
	h, err := s.Holder(ctx)
	if err != nil {
		return err
	}
	locked := &checkpoint.LockedError{Pipeline: s.Cfg.Pipeline}
	if h != nil {
		locked.Holder, locked.Foreign, locked.Fix = h.String(), h.Foreign, h.endSQL()
	}
	return locked
}

// Holder finds who holds the lock; nil for nobody. A bigint key is split in two in pg_locks. The key is no secret, so it may be anybody: a relay of this
// pipeline is known by its role, which nobody can borrow, and by its application_name.
func (s *Store) Holder(ctx context.Context) (*Holder, error) {
	key := uint64(LockKey(s.Cfg.Pipeline))
	h := &Holder{}
	// When it began is not shown to a role that is neither the session's nor in pg_read_all_stats.
	err := s.Conn.QueryRow(ctx, `SELECT a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), a.backend_start,
			a.usename IS DISTINCT FROM session_user OR a.application_name IS DISTINCT FROM $3
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = $1 AND l.objid::bigint = $2
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1`, int64(key>>32), int64(key&0xffffffff), session.AppName(s.Cfg.Pipeline)).
		Scan(&h.PID, &h.Role, &h.Application, &h.Client, (*orZeroTime)(&h.Since), &h.Foreign)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.Fault("look for the lock's holder", err)
	}
	return h, nil
}

// Relay says who relays.
func (h *Holder) Relay() string {
	if h == nil {
		return "not running: nobody holds the pipeline's lock"
	}
	if h.Foreign {
		return fmt.Sprintf("not known to run: the pipeline's lock is held by a session that is no tailbox of this pipeline and role (%s)", h)
	}
	from := "this machine"
	if h.Client != "" {
		from = h.Client
	}
	return fmt.Sprintf("running from %s since %s (%s)", from, h.Since.Format(time.RFC3339), h)
}

// LockKey is the key of the pipeline's advisory lock: the first 8 bytes of SHA-256 of "tailbox:" and the name, as a
// bigint. Advisory locks belong to a database, so pipelines of one name in two databases do not meet.
func LockKey(pipeline string) int64 {
	sum := sha256.Sum256([]byte("tailbox:" + pipeline))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
