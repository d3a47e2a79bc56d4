package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store"
)

// A Report is what `tailbox status` reports.
type Report struct {
	store.Report
	// Slot is nil where there is none.
	Slot *SlotReport `json:"slot"`
	// Poll is nil where the log is read.
	Poll *store.PollReport `json:"poll,omitempty"`
	// Holder is the session that holds the pipeline's lock; nil where no relay runs.
	Holder *HolderReport `json:"holder"`
}

// A SlotReport is the slot's row of pg_replication_slots, and how far it is behind.
type SlotReport struct {
	Name string `json:"name"`
	// Row holds all columns that this server's version has, under their own names.
	Row map[string]any `json:"row"`
	// LagBytes is how much log is not confirmed yet, RetainedBytes how much the server keeps for the slot.
	LagBytes      int64 `json:"lag_bytes"`
	RetainedBytes int64 `json:"retained_bytes"`
	// LagSeconds is how long ago the log that is not confirmed was written, as the server measures it while the slot is read;
	// else the age of the last change of the checkpoint. 0 where nothing is behind.
	LagSeconds float64 `json:"lag_seconds"`
	// Standbys are those that the server waits for before it sends anything; Waiting is what is wrong with them, so that it sends nothing; "" for nothing.
	Standbys []upstream.StandbySlot `json:"standbys,omitempty"`
	Waiting  string                 `json:"waiting,omitempty"`
}

// A HolderReport is a session of the server.
type HolderReport struct {
	PID         int       `json:"pid"`
	Role        string    `json:"role"`
	Application string    `json:"application_name"`
	Client      string    `json:"client"` // address; "" for a Unix socket
	Since       time.Time `json:"since"`
	// Foreign: the session is no tailbox of this pipeline.
	Foreign bool `json:"foreign"`
}

// String is the session as people find it.
func (h *HolderReport) String() string {
	return fmt.Sprintf("role %s, pid %d, application_name %s", h.Role, h.PID, h.Application)
}

// endSQL ends the session.
func (h *HolderReport) endSQL() string { return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID) }

// Status reads the state of a pipeline.
func Status(ctx context.Context, cfg session.Config) (report *Report, err error) {
	s, err := OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, s.Conn)) }()
	r := &Report{Report: store.Report{Pipeline: cfg.Pipeline}}
	// One transaction, so that the figures belong together.
	if _, err := s.Conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return nil, s.Fault("read status", err)
	}
	id, err := upstream.IDOf(ctx, s.Conn)
	if err != nil {
		return nil, s.Fault("name the server", err)
	}
	r.SourceID = upstream.ParseID(id).History
	reports := []func(context.Context, *Report) error{s.reportServer, s.reportSlot, s.reportCheckpoint, s.reportHolder, s.reportSinks,
		s.reportFeedback}
	if cfg.Poll {
		reports[1] = s.reportPoll
	}
	for _, read := range reports {
		if err := read(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (s *Store) reportFeedback(ctx context.Context, r *Report) error {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT coalesce(selection->>'table', ''), coalesce(selection->>'outcome', ''), coalesce((result->>'failed')::int, 0), reason,
			extract(epoch FROM now() - requested_at)::float8
		FROM {request} WHERE pipeline = $1 AND verb = 'feedback' AND done_at > now() - interval '1 day' ORDER BY id`), s.Cfg.Pipeline)
	if err != nil {
		return s.Fault("read failures of feedback", err)
	}
	if r.Feedback, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.FeedbackFailure]); err != nil {
		return s.Fault("read failures of feedback", err)
	}
	return nil
}

const logEndSQL = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"

func (s *Store) reportServer(ctx context.Context, r *Report) error {
	err := s.Conn.QueryRow(ctx, "SELECT current_setting('server_version'), ("+logEndSQL+")::text").Scan(&r.Version, &r.End)
	if err != nil {
		return s.Fault("read the server's state", err)
	}
	return nil
}

// reportSlot reads the slot as JSON, since its columns differ by version.
func (s *Store) reportSlot(ctx context.Context, r *Report) error {
	slot := &SlotReport{Name: s.Cfg.Slot}
	var row string
	err := s.Conn.QueryRow(ctx, `SELECT to_jsonb(s)::text, greatest(coalesce(pg_wal_lsn_diff(`+logEndSQL+`, s.confirmed_flush_lsn), 0), 0)::bigint,
			greatest(coalesce(pg_wal_lsn_diff(`+logEndSQL+`, s.restart_lsn), 0), 0)::bigint,
			coalesce(CASE WHEN s.active THEN extract(epoch FROM a.flush_lag) ELSE (SELECT extract(epoch FROM now() - c.updated_at)
				FROM `+s.Names.Checkpoint+` c WHERE c.pipeline = $2) END, 0)::float8
		FROM pg_replication_slots s LEFT JOIN pg_stat_replication a ON a.pid = s.active_pid WHERE s.slot_name = $1`, s.Cfg.Slot, s.Cfg.Pipeline).
		Scan(&row, &slot.LagBytes, &slot.RetainedBytes, &slot.LagSeconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return s.Fault("read slot "+s.Cfg.Slot, err)
	}
	if err := json.Unmarshal([]byte(row), &slot.Row); err != nil {
		return fmt.Errorf("read slot %s: %w", s.Cfg.Slot, err)
	}
	if slot.LagBytes == 0 {
		slot.LagSeconds = 0
	}
	if slot.Standbys, err = upstream.Standbys(ctx, &s.Cfg, s.Conn.PgConn()); err != nil {
		return s.Fault("read slot "+s.Cfg.Slot, err)
	}
	slot.Waiting = upstream.AwayWarning(slot.Standbys)
	for i := range slot.Standbys {
		if slot.Standbys[i].Away() != "" {
			slot.LagSeconds = max(slot.LagSeconds, slot.Standbys[i].AwaySeconds)
		}
	}
	r.Slot = slot
	return nil
}

func (s *Store) reportCheckpoint(ctx context.Context, r *Report) error {
	var row checkpointRow
	var savedAt time.Time
	var age float64
	err := s.Conn.QueryRow(ctx, s.SQL(`SELECT source_id, resume, settled_above::text, log, sweep_pending, unclean_starts, updated_at,
		extract(epoch FROM now() - updated_at)::float8 FROM {checkpoint} WHERE pipeline = $1`), s.Cfg.Pipeline).
		Scan(&row.sourceID, &row.resume, &row.settledAbove, &row.log, &row.sweepPending, &row.unclean, &savedAt, &age)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return s.Fault("read the checkpoint", err)
	}
	saved, err := row.checkpoint()
	if err != nil {
		return err
	}
	r.Checkpoint = store.ReportCheckpoint(saved, row.unclean, savedAt, age)
	return nil
}

func (s *Store) reportHolder(ctx context.Context, r *Report) (err error) {
	r.Holder, err = s.holder(ctx)
	return err
}

// lockedBy is the error for a lock that somebody else holds.
func (s *Store) lockedBy(ctx context.Context) error {
	h, err := s.holder(ctx)
	if err != nil {
		return err
	}
	locked := &checkpoint.LockedError{Pipeline: s.Cfg.Pipeline}
	if h != nil {
		locked.Holder, locked.Foreign, locked.Cure = h.String(), h.Foreign, h.endSQL()
	}
	return locked
}

// holder finds who holds the lock; nil for nobody. A bigint key is split in two in pg_locks. The key is no secret, so it may be anybody: a relay of this
// pipeline is known by its role, which nobody can borrow, and by its application_name.
func (s *Store) holder(ctx context.Context) (*HolderReport, error) {
	key := uint64(LockKey(s.Cfg.Pipeline))
	h := &HolderReport{}
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

// sinkCounts counts deliveries by sink and table, and laneCounts lists lanes, stepping from one to the next along the index.
const (
	sinkCounts = `
SELECT sink, source_table, count(*) FILTER (WHERE state = 'retrying'), count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'dead'),
	coalesce(extract(epoch FROM now() - min(next_attempt_at) FILTER (WHERE next_attempt_at <= now())), 0)::float8,
	coalesce(extract(epoch FROM now() - min(changed_at) FILTER (WHERE state = 'dead' AND blocks)), 0)::float8,
	coalesce(greatest(extract(epoch FROM now() - min(greatest(coalesce(commit_time, parked_at), available_at)) FILTER (WHERE state <> 'dead')), 0), 0)::float8
FROM {parked} WHERE pipeline = $1 AND state IN ('retrying', 'waiting', 'dead') GROUP BY sink, source_table`

	laneCounts = `
WITH RECURSIVE lane AS (
	(SELECT sink, message_group, state FROM {parked} WHERE pipeline = $1 AND blocks ORDER BY sink, message_group, position LIMIT 1)
	UNION ALL
	SELECT n.sink, n.message_group, n.state FROM lane l CROSS JOIN LATERAL (
		SELECT p.sink, p.message_group, p.state FROM {parked} p
		WHERE p.pipeline = $1 AND p.blocks AND (p.sink, p.message_group) > (l.sink, l.message_group)
		ORDER BY p.sink, p.message_group, p.position LIMIT 1) n
)
SELECT sink, message_group, state = 'dead' FROM lane`
)

func (s *Store) reportSinks(ctx context.Context, r *Report) error {
	force, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	counts := store.CountSinks(force)
	rows, err := s.Conn.Query(ctx, s.SQL(sinkCounts), s.Cfg.Pipeline)
	if err != nil {
		return s.Fault("count parked deliveries", err)
	}
	var c store.SinkReport
	var table string
	if _, err := pgx.ForEachRow(rows, []any{&c.Sink, &table, &c.Retrying, &c.Waiting, &c.Dead, &c.DueSeconds, &c.HeldSeconds, &c.UndeliveredSeconds}, func() error {
		counts.Add(c.Sink, table, &c)
		return nil
	}); err != nil {
		return s.Fault("count parked deliveries", err)
	}
	if rows, err = s.Conn.Query(ctx, s.SQL(laneCounts), s.Cfg.Pipeline); err != nil {
		return s.Fault("count lanes", err)
	}
	var lane checkpoint.Lane
	var dead bool
	if _, err := pgx.ForEachRow(rows, []any{&lane.Sink, &lane.Group, &dead}, func() error {
		counts.AddLane(lane, dead)
		return nil
	}); err != nil {
		return s.Fault("count lanes", err)
	}
	counts.Report(&r.Report)
	err = s.Conn.QueryRow(ctx, s.SQL(`SELECT count(*) FROM {request} WHERE pipeline = $1 AND done_at IS NULL`), s.Cfg.Pipeline).Scan(&r.OpenRequests)
	if err != nil {
		return s.Fault("count open requests", err)
	}
	return nil
}

// Relay says who relays.
func (h *HolderReport) Relay() string {
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

// Text shows the columns of pg_replication_slots that matter most.
func (s *SlotReport) Text() string {
	text := s.Name
	for _, column := range []string{"active", "wal_status", "confirmed_flush_lsn", "restart_lsn", "invalidation_reason", "conflicting"} {
		if v, ok := s.Row[column]; ok && v != nil && v != "" && (column != "conflicting" || v == true) {
			text += fmt.Sprintf(" %s=%v", column, v)
		}
	}
	return text
}
