package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

const (
	// activePatience is how long a slot may be active for another connection before that one is ended, if it is ours, and
	// activeLimit how long before it is an error.
	activePatience = time.Second
	activeLimit    = 5 * time.Second
	// endedLimit is activeLimit for a reader that was told to end: it looks at that between two pieces of work, on a busy server late.
	endedLimit = 30 * time.Second
	activePoll = 100 * time.Millisecond
)

// serverInfo says which server, and how far its log is.
type serverInfo struct {
	systemID string
	timeline uint32
	started  string     // when, in microseconds since 1970
	end      pgrepl.LSN // flushed
	database string
	version  int // server_version_num
	recovery bool
}

// history names the server and its timeline.
func (s *serverInfo) history() string {
	return s.systemID + "/" + strconv.FormatUint(uint64(s.timeline), 10)
}

// identify asks a replication connection which server it is at.
func identify(ctx context.Context, conn *pgconn.PgConn) (*serverInfo, error) {
	rows, err := queryText(ctx, conn, "IDENTIFY_SYSTEM")
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
	s := &serverInfo{systemID: rows[0][0], timeline: uint32(timeline), end: end, database: rows[0][3]}
	rows, err = queryText(ctx, conn, "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery(), "+startedSQL)
	if err != nil {
		return nil, fmt.Errorf("ask for the server's version: %w", err)
	}
	if s.version, err = strconv.Atoi(rows[0][0]); err != nil {
		return nil, fmt.Errorf("ask for the server's version: %w", err)
	}
	s.recovery, s.started = rows[0][1] == "t", rows[0][2]
	return s, nil
}

// slotState is the slot's row of pg_replication_slots. Columns that a version does not have are zero.
type slotState struct {
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

// slot reads the state of the configured slot; nil = there is none.
func (c *Config) slot(ctx context.Context, conn *pgconn.PgConn) (*slotState, error) {
	// As JSON, because the columns differ by version.
	rows, err := queryText(ctx, conn, "SELECT pg_catalog.to_jsonb(s) FROM pg_catalog.pg_replication_slots s WHERE slot_name = "+
		quoteLiteral(c.Slot))
	if err != nil {
		return nil, fmt.Errorf("look up replication slot %q: %w", c.Slot, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	s := &slotState{}
	if err := json.Unmarshal([]byte(rows[0][0]), s); err != nil {
		return nil, fmt.Errorf("look up replication slot %q: %w", c.Slot, err)
	}
	return s, nil
}

// unlike says why a slot cannot be one of a relay in this database; "" if it can.
func (s *slotState) unlike(database string) string {
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

// foreign is an error, which matches source.ErrStop, for a slot that cannot be the relay's.
func (c *Config) foreign(s *slotState, database string) error {
	what := s.unlike(database)
	if what == "" {
		return nil
	}
	return fmt.Errorf("use replication slot %q: it %s, want pgoutput in %s: choose another source.slot, or drop it with "+
		"SELECT pg_drop_replication_slot(%s): %w", c.Slot, what, database, quoteLiteral(c.Slot), source.ErrStop)
}

// lost tells why the log can no longer be read from a position by a slot, "" if it can. Err is for what an operator has to mend.
func (c *Config) lost(s *slotState, server *serverInfo, from pgrepl.LSN) (why string, err error) {
	if s == nil {
		return fmt.Sprintf("replication slot %q does not exist", c.Slot), nil
	}
	if err := c.foreign(s, server.database); err != nil {
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

// inactiveSlot waits until nobody reads the slot, and ends our own old reader: the caller holds the pipeline's lock, so that one
// is a leftover of a dead relay whose connection the server has not given up yet. Nil = there is no slot.
func (c *Config) inactiveSlot(ctx context.Context, conn *pgconn.PgConn) (*slotState, error) {
	start, limit := time.Now(), activeLimit
	end := start.Add(activePatience) // when the old reader is ended, and then again: another one may follow it
	for {
		s, err := c.slot(ctx, conn)
		if err != nil || s == nil || !s.Active {
			return s, err
		}
		if !time.Now().Before(end) {
			ended, err := c.endOldReader(ctx, conn, s.ActivePID)
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

// endOldReader ends a connection by its pid if it is one of this pipeline: of its name, in its database, and reading its slot.
// Pipelines of other databases may have the same name.
func (c *Config) endOldReader(ctx context.Context, conn *pgconn.PgConn, pid int) (ended bool, err error) {
	rows, err := queryText(ctx, conn, fmt.Sprintf("SELECT a.application_name, pg_catalog.pg_terminate_backend(a.pid) "+
		"FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_replication_slots s ON s.active_pid = a.pid "+
		"WHERE a.pid = %d AND a.application_name = %s AND a.datname = pg_catalog.current_database() AND s.slot_name = %s "+
		"AND s.database = pg_catalog.current_database()", pid, quoteLiteral(appName(c.Pipeline)), quoteLiteral(c.Slot)))
	if err != nil {
		return false, fmt.Errorf("end the old reader of replication slot %q, PID %d: %w", c.Slot, pid, err)
	}
	if len(rows) > 0 {
		c.logger().Warn("ended the slot's old reader", "slot", c.Slot, "pid", pid)
	}
	return len(rows) > 0, nil
}

// A createdSlot is a new position.
type createdSlot struct {
	point    pgrepl.LSN // the first position that the slot delivers
	snapshot string     // shows what was committed before; exported as long as the connection does nothing else
}

// slotPatience is how long a slot's creation may take until the log names those who block it, and until it fails.
type slotPatience struct{ warn, limit time.Duration }

// createSlot makes the slot. The server waits for all transactions that are open now, so this can take long.
func (c *Config) createSlot(ctx context.Context, conn *pgconn.PgConn, server *serverInfo, p slotPatience) (*createdSlot, error) {
	command := "CREATE_REPLICATION_SLOT " + quoteIdent(c.Slot) + " LOGICAL pgoutput "
	switch {
	case server.version < 150000:
		command += "EXPORT_SNAPSHOT"
	case server.version >= 170000 && c.Failover:
		command += "(SNAPSHOT 'export', FAILOVER true)"
	default:
		command += "(SNAPSHOT 'export')"
	}
	rows, err := c.patiently(ctx, conn, command, p)
	if err != nil {
		return nil, fmt.Errorf("create replication slot %q: %w", c.Slot, c.createCure(err))
	}
	if len(rows) != 1 || len(rows[0]) < 3 {
		return nil, fmt.Errorf("create replication slot %q: %d rows: %w", c.Slot, len(rows), pgrepl.ErrProtocol)
	}
	point, err := pgrepl.ParseLSN(rows[0][1])
	if err != nil {
		return nil, fmt.Errorf("create replication slot %q: %w", c.Slot, err)
	}
	return &createdSlot{point: point, snapshot: rows[0][2]}, nil
}

// patiently runs the command, warns when it takes long, and gives up with the names of those who block it.
func (c *Config) patiently(ctx context.Context, conn *pgconn.PgConn, command string, p slotPatience) ([][]string, error) {
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	type answer struct {
		rows [][]string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		rows, err := queryText(limited, conn, command)
		answers <- answer{rows, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-time.After(p.warn):
		who, err := c.blockers(ctx)
		if err != nil {
			who = "unknown: " + err.Error()
		}
		c.logger().Warn("creating the slot waits for open transactions", "slot", c.Slot, "blocked_by", who)
		a = <-answers
	}
	if a.err == nil || limited.Err() == nil || ctx.Err() != nil {
		return a.rows, a.err
	}
	who, err := c.blockers(ctx)
	if err != nil {
		who = "unknown: " + err.Error()
	}
	return nil, fmt.Errorf("transactions that were open when it began have not ended within %s: commit or end them "+
		"(SELECT pg_terminate_backend(pid), ROLLBACK PREPARED): %s", p.limit, who)
}

// blockers names the transactions that a slot's creation waits for.
func (c *Config) blockers(ctx context.Context) (who string, err error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	rows, err := queryText(ctx, conn.PgConn(), `SELECT 'pid ' || pid || ' (' || coalesce(application_name, '?') || ', ' || `+
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

// createCure adds what an operator can do about the server's refusal.
func (c *Config) createCure(err error) error {
	cure := ""
	switch sqlState(err) {
	case "55000":
		cure = "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
	case "53400":
		cure = "raise max_replication_slots and restart the server, or drop a slot that nobody needs"
	case "42501":
		cure = "ALTER ROLE … WITH REPLICATION, or what your provider has in its place"
	default:
		return err
	}
	return fmt.Errorf("%w: %s: %w", err, cure, source.ErrStop)
}
