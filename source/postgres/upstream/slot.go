package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

const (
	// activePatience is how long another connection may use the slot before that connection is ended, if it is ours. After activeLimit it is an
	// error.
	activePatience = time.Second
	activeLimit    = 5 * time.Second
	// endedLimit is activeLimit after the old reader was terminated: a busy server process notices that late.
	endedLimit = 30 * time.Second
	activePoll = 100 * time.Millisecond
)

// Slot is the slot's row of pg_replication_slots. Columns that a version does not have are zero.
type Slot struct {
	Plugin             string `json:"plugin"`
	SlotType           string `json:"slot_type"`
	Database           string `json:"database"`
	Temporary          bool   `json:"temporary"`
	Active             bool   `json:"active"`
	ActivePID          int    `json:"active_pid"`
	Confirmed          string `json:"confirmed_flush_lsn"`
	WALStatus          string `json:"wal_status"`
	InvalidationReason string `json:"invalidation_reason"`
	Conflicting        bool   `json:"conflicting"`
	Failover           bool   `json:"failover"`
}

// Find reads the state of the configured slot; nil = there is none.
func Find(ctx context.Context, c *session.Config, conn *pgconn.PgConn) (*Slot, error) {
	// As JSON, because the columns differ by version.
	rows, err := session.Query(ctx, conn, "SELECT pg_catalog.to_jsonb(s) FROM pg_catalog.pg_replication_slots s WHERE slot_name = "+
		sqltext.Literal(c.Slot))
	if err != nil {
		return nil, fmt.Errorf("look up replication slot %q: %w", c.Slot, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	s := &Slot{}
	if err := json.Unmarshal([]byte(rows[0][0]), s); err != nil {
		return nil, fmt.Errorf("look up replication slot %q: %w", c.Slot, err)
	}
	return s, nil
}

// Unlike says why a slot cannot be one of a relay in this database; "" if it can.
func (s *Slot) Unlike(database string) string {
	switch {
	case s.SlotType != "logical":
		return "is a physical one"
	case s.Plugin != "pgoutput":
		return "has the output plugin " + s.Plugin
	case s.Database != database:
		return "belongs to database " + s.Database
	}
	return ""
}

// RefuseForeign is an error, which matches source.ErrStop, for a slot that cannot be the relay's.
func RefuseForeign(c *session.Config, s *Slot, database string) error {
	what := s.Unlike(database)
	if what == "" {
		return nil
	}
	return fmt.Errorf("use replication slot %q: it %s, want pgoutput in %s: choose another source.slot, or drop it with "+
		"SELECT pg_drop_replication_slot(%s): %w", c.Slot, what, database, sqltext.Literal(c.Slot), source.ErrStop)
}

// Lost tells why the log can no longer be read from a position by a slot, "" if it can. Err is for what an operator has to mend.
func Lost(c *session.Config, s *Slot, server *Server, from pgrepl.LSN) (why string, err error) {
	if s == nil {
		return fmt.Sprintf("replication slot %q does not exist", c.Slot), nil
	}
	if err := RefuseForeign(c, s, server.Database); err != nil {
		return "", err
	}
	switch {
	case s.InvalidationReason != "":
		return fmt.Sprintf("replication slot %q is invalidated (%s)", c.Slot, s.InvalidationReason), nil
	case s.WALStatus == "lost", s.Confirmed == "":
		return fmt.Sprintf("replication slot %q is lost: the server removed log that it needs (max_slot_wal_keep_size)", c.Slot), nil
	case s.Conflicting:
		return fmt.Sprintf("replication slot %q is invalidated by a conflict with recovery", c.Slot), nil
	case s.Temporary && !s.Active:
		return fmt.Sprintf("replication slot %q was not synchronised to the end before the failover", c.Slot), nil
	}
	confirmed, err := pgrepl.ParseLSN(s.Confirmed)
	if err != nil {
		return "", fmt.Errorf("look up replication slot %q: %w", c.Slot, err)
	}
	if confirmed > from {
		return fmt.Sprintf("replication slot %q has discarded log up to %s, the checkpoint is %s", c.Slot, confirmed, from), nil
	}
	if from > server.end {
		return fmt.Sprintf("the checkpoint %s is beyond the server's log, which ends at %s: the server was restored from an older state",
			from, server.end), nil
	}
	return "", nil
}

// WaitFree waits until nobody reads the slot, and ends an old reader of this pipeline. The caller holds the pipeline's lock, so such a reader is
// left over from a dead relay whose connection the server has not given up yet. Nil = there is no slot.
func WaitFree(ctx context.Context, c *session.Config, conn *pgconn.PgConn) (*Slot, error) {
	start, limit := time.Now(), activeLimit
	end := start.Add(activePatience) // when the old reader is ended, and then again: another one may follow it
	for {
		s, err := Find(ctx, c, conn)
		if err != nil || s == nil || !s.Active {
			return s, err
		}
		if !time.Now().Before(end) {
			ended, err := EndOldReader(ctx, c, conn, s.ActivePID)
			if err != nil {
				return nil, err
			}
			if ended {
				limit, end = endedLimit, time.Now().Add(activePatience)
			}
		}
		if time.Since(start) > limit {
			return nil, fmt.Errorf("use replication slot %q: it is active for PID %d: stop that reader, or choose another source.slot",
				c.Slot, s.ActivePID)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(activePoll):
		}
	}
}

// EndOldReader ends a connection by its pid if it is one of this pipeline: of its name, in its database, and reading its slot.
// Pipelines of other databases may have the same name.
func EndOldReader(ctx context.Context, c *session.Config, conn *pgconn.PgConn, pid int) (ended bool, err error) {
	rows, err := session.Query(ctx, conn, fmt.Sprintf("SELECT a.application_name, pg_catalog.pg_terminate_backend(a.pid) "+
		"FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_replication_slots s ON s.active_pid = a.pid "+
		"WHERE a.pid = %d AND a.application_name = %s AND a.datname = pg_catalog.current_database() AND s.slot_name = %s "+
		"AND s.database = pg_catalog.current_database()", pid, sqltext.Literal(session.AppName(c.Pipeline)), sqltext.Literal(c.Slot)))
	if err != nil {
		return false, fmt.Errorf("end the old reader of replication slot %q, PID %d: %w", c.Slot, pid, err)
	}
	if len(rows) > 0 {
		c.Log().Warn("ended the slot's old reader", "slot", c.Slot, "pid", pid)
	}
	return len(rows) > 0, nil
}

// A Created is a new position.
type Created struct {
	Point    pgrepl.LSN // the first position that the slot delivers
	Snapshot string     // shows what was committed before; exported as long as the connection does nothing else
}

// Patience is how long a slot's creation may take until the log names those who block it, and until it fails.
type Patience struct{ Warn, Limit time.Duration }

// Create makes the slot. The server waits for all transactions that are open now, so this can take long.
func Create(ctx context.Context, c *session.Config, conn *pgconn.PgConn, server *Server, p Patience) (*Created, error) {
	command := "CREATE_REPLICATION_SLOT " + sqltext.Ident(c.Slot) + " LOGICAL pgoutput "
	switch {
	case server.Version < 150000:
		command += "EXPORT_SNAPSHOT"
	case server.Version >= 170000 && c.Failover:
		command += "(SNAPSHOT 'export', FAILOVER true)"
	default:
		command += "(SNAPSHOT 'export')"
	}
	rows, err := patiently(ctx, c, conn, command, p)
	if err != nil {
		return nil, fmt.Errorf("create replication slot %q: %w", c.Slot, createFix(err))
	}
	if len(rows) != 1 || len(rows[0]) < 3 {
		return nil, fmt.Errorf("create replication slot %q: %d rows: %w", c.Slot, len(rows), pgrepl.ErrProtocol)
	}
	point, err := pgrepl.ParseLSN(rows[0][1])
	if err != nil {
		return nil, fmt.Errorf("create replication slot %q: %w", c.Slot, err)
	}
	return &Created{Point: point, Snapshot: rows[0][2]}, nil
}

// patiently runs the command, warns when it takes long, and gives up with the names of those who block it.
func patiently(ctx context.Context, c *session.Config, conn *pgconn.PgConn, command string, p Patience) ([][]string, error) {
	limited, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	type answer struct {
		rows [][]string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		rows, err := session.Query(limited, conn, command)
		answers <- answer{rows, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-time.After(p.Warn):
		who, err := blockers(ctx, c)
		if err != nil {
			who = "unknown: " + err.Error()
		}
		c.Log().Warn("creating the slot waits for open transactions", "slot", c.Slot, "blocked_by", who)
		a = <-answers
	}
	if a.err == nil || limited.Err() == nil || ctx.Err() != nil {
		return a.rows, a.err
	}
	who, err := blockers(ctx, c)
	if err != nil {
		who = "unknown: " + err.Error()
	}
	return nil, fmt.Errorf("transactions that were open when it began have not ended within %s: commit or end them "+
		"(SELECT pg_terminate_backend(pid), ROLLBACK PREPARED): %s", p.Limit, who)
}

// blockers names the transactions that a slot's creation waits for.
func blockers(ctx context.Context, c *session.Config) (who string, err error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	rows, err := session.Query(ctx, conn.PgConn(), `SELECT 'pid ' || pid || ' (' || coalesce(application_name, '?') || ', ' || `+
		`coalesce(state, '?') || ', ' || coalesce(extract(epoch FROM clock_timestamp() - xact_start)::int, 0) || ' s)' `+
		`FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() `+
		`UNION ALL SELECT 'prepared transaction ' || quote_literal(gid) FROM pg_catalog.pg_prepared_xacts LIMIT 20`)
	if err != nil {
		return "", fmt.Errorf("look up open transactions: %w", err)
	}
	for i, r := range rows {
		if i > 0 {
			who += ", "
		}
		who += r[0]
	}
	if who == "" {
		who = "none is open now: try again"
	}
	return who, nil
}

// createFix adds what an operator can do about the server's refusal.
func createFix(err error) error {
	fix := ""
	switch pgerr.State(err) {
	case "55000":
		fix = "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
	case "53400":
		fix = "raise max_replication_slots and restart the server, or drop a slot that nobody needs"
	case "42501":
		fix = "ALTER ROLE … WITH REPLICATION, or what your provider has in its place"
	default:
		return err
	}
	return fmt.Errorf("%w: %s: %w", err, fix, source.ErrStop)
}

// FailoverIdle says that source.failover does nothing, and what would; "" if it does something, or is not set. Slot is nil if there is none yet.
func FailoverIdle(c *session.Config, version int, slot *Slot) (what, fix string) {
	switch {
	case !c.Failover:
		return "", ""
	case version < 170000:
		return "source.failover does nothing: servers before Postgres 17 do not synchronise slots to standbys",
			"upgrade to Postgres 17, or keep the slot by the extension pg_failover_slots or Patroni's permanent slots; without the slot a failover is a lost slot"
	case slot != nil && !slot.Failover:
		return fmt.Sprintf("source.failover does nothing for slot %s, which was made without it", c.Slot),
			fmt.Sprintf("stop the relay, then: psql 'dbname=%s replication=database' -c 'ALTER_REPLICATION_SLOT %s (FAILOVER true)'", slot.Database, sqltext.Ident(c.Slot))
	}
	return "", ""
}
