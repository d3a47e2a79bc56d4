package upstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// An ID names a server in checkpoints: SYSTEM/TIMELINE@STARTED, and +messages.
//
// If a server is started from a snapshot of a volume, it has the same system id, timeline, slots and checkpoint, but from then on writes other
// messages at positions that consumers have seen. Only its start time differs. So if the start time has changed, and this relay process did not see
// the server before that, a new Log begins, and no position is used twice. A mere restart of the server looks the same; a new Log does no harm then.
type ID struct {
	History string // SYSTEM/TIMELINE
	Started string // "" in checkpoints of older versions
	// messages: rows and logical decoding messages are numbered together. With and without them a row has different numbers, so the ranges that a
	// checkpoint names as settled would mean other rows.
	messages bool
}

const withMessages = "+messages"

// ParseID reads what ID.String wrote.
func ParseID(text string) (id ID) {
	text, id.messages = strings.CutSuffix(text, withMessages)
	id.History, id.Started, _ = strings.Cut(text, "@")
	return id
}

// String is the ID as checkpoints hold it.
func (id ID) String() string {
	text := id.History
	if id.Started != "" {
		text += "@" + id.Started
	}
	if id.messages {
		text += withMessages
	}
	return text
}

// startedSQL is when the server was started, in microseconds since 1970.
const startedSQL = "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text"

// A ServerMemory is what a process has seen of the server. A process that ran before and after a restart knows how far the log was read. If the log
// does not end before that, the server was not set back: positions go on without a new Log, so that consumers can drop duplicates by them.
type ServerMemory struct {
	mu   sync.Mutex
	id   ID
	read pgrepl.LSN
}

// Note takes note of the server, whose log ends at end.
func (w *ServerMemory) Note(id ID, end pgrepl.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id.History != id.History || end < w.read {
		w.read = 0 // of another log
	}
	w.id = id
}

// Reached notes how far the log was read.
func (w *ServerMemory) Reached(at pgrepl.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = max(w.read, at)
}

// Same reports whether positions of a checkpoint are good for the server as it is now, whose log ends at end.
func (w *ServerMemory) Same(before, now ID, end pgrepl.LSN) bool {
	if before.History != now.History || before.messages != now.messages {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id.History == now.History && end < w.read {
		return false
	}
	return before.Started == now.Started || before.Started == "" || w.id.History == before.History && w.id.Started == before.Started
}

// StandbyError is for what only a primary can do.
func StandbyError(doing string) error {
	return fmt.Errorf("%s: the server is a standby, which writes nothing: source.url must lead to the primary, such as with target_session_attrs=read-write and all hosts", doing)
}

// Server says which server, and how far its log is.
type Server struct {
	SystemID string
	timeline uint32
	started  string     // when, in microseconds since 1970
	end      pgrepl.LSN // flushed
	Database string
	Version  int // server_version_num
	Recovery bool
}

// history names the server and its timeline.
func (s *Server) history() string {
	return s.SystemID + "/" + strconv.FormatUint(uint64(s.timeline), 10)
}

// Identify asks a replication connection which server it is at.
func Identify(ctx context.Context, conn *pgconn.PgConn) (*Server, error) {
	rows, err := session.Query(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return nil, fmt.Errorf("identify server: %w", err)
	}
	if len(rows) != 1 || len(rows[0]) < 4 {
		return nil, fmt.Errorf("identify server: %d rows: %w", len(rows), pgrepl.ErrProtocol)
	}
	timeline, err := strconv.ParseUint(rows[0][1], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("identify server: timeline: %w", err)
	}
	end, err := pgrepl.ParseLSN(rows[0][2])
	if err != nil {
		return nil, fmt.Errorf("identify server: %w", err)
	}
	s := &Server{SystemID: rows[0][0], timeline: uint32(timeline), end: end, Database: rows[0][3]}
	rows, err = session.Query(ctx, conn, "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery(), "+startedSQL)
	if err != nil {
		return nil, fmt.Errorf("ask for the server's version: %w", err)
	}
	if s.Version, err = strconv.Atoi(rows[0][0]); err != nil {
		return nil, fmt.Errorf("ask for the server's version: %w", err)
	}
	s.Recovery, s.started = rows[0][1] == "t", rows[0][2]
	return s, nil
}

// IDOf is the ID of a server, without what a configuration adds. The system identifier and timeline are those of IDENTIFY_SYSTEM on a
// replication connection. The control file's timeline lags behind a promotion, so it is read from the name of the segment being written.
func IDOf(ctx context.Context, conn *pgx.Conn) (string, error) {
	var id ID
	err := conn.QueryRow(ctx, `SELECT s.system_identifier || '/' || CASE WHEN pg_is_in_recovery()
		THEN (SELECT timeline_id FROM pg_control_checkpoint())
		ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END, `+startedSQL+` FROM pg_control_system() s`).Scan(&id.History, &id.Started)
	return id.String(), err
}
