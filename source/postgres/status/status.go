// Package status reads how a pipeline stands: its server and slot, its checkpoint, who relays, and what is parked.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/session"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/feedback"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Report is what `tailbox status` reports.
type Report struct {
	report.Report
	// Slot is nil if there is none.
	Slot *Slot `json:"slot"`
	// Poll is nil if the log is read.
	Poll *report.Poll `json:"poll,omitempty"`
	// Holder is the session that holds the pipeline's lock; nil if no relay runs.
	Holder *pgstore.Holder `json:"holder"`
}

// A Slot is the slot's row of pg_replication_slots, and how far it is behind.
type Slot struct {
	Name string `json:"name"`
	// Row holds all columns that this server's version has, under their own names.
	Row map[string]any `json:"row"`
	// LagBytes is how much log is not confirmed yet, RetainedBytes how much the server keeps for the slot.
	LagBytes      int64 `json:"lag_bytes"`
	RetainedBytes int64 `json:"retained_bytes"`
	// LagSeconds is how far confirmations are behind: the server's flush_lag if the slot is being read, else the age of the last change of the
	// checkpoint; 0 if nothing is behind. If a standby is away, it is at least that one's AwaySeconds.
	LagSeconds float64 `json:"lag_seconds"`
	// Standbys are those that the server waits for before it sends anything. Waiting says why it sends nothing because of them; "" if they do not
	// stop it.
	Standbys []upstream.StandbySlot `json:"standbys,omitempty"`
	Waiting  string                 `json:"waiting,omitempty"`
}

// Read reads the state of a pipeline.
func Read(ctx context.Context, cfg session.Config) (r *Report, err error) {
	s, err := pgstore.OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, s.Conn)) }()
	r = &Report{Report: report.Report{Pipeline: cfg.Pipeline}}
	// One transaction, so that the figures belong together.
	if _, err := s.Conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return nil, s.Fault("read status", err)
	}
	id, err := upstream.IDOf(ctx, s.Conn)
	if err != nil {
		return nil, s.Fault("name the server", err)
	}
	r.SourceID = upstream.ParseID(id).History
	reports := []func(context.Context, *pgstore.Store, *Report) error{reportServer, reportSlot, reportCheckpoint, reportHolder, reportSinks,
		reportFeedback}
	if cfg.Poll {
		reports[1] = reportPoll
	}
	for _, read := range reports {
		if err := read(ctx, s, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func reportFeedback(ctx context.Context, s *pgstore.Store, r *Report) error {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT coalesce(selection->>'table', ''), coalesce(selection->>'outcome', ''), coalesce((result->>'failed')::int, 0), reason,
			extract(epoch FROM now() - requested_at)::float8
		FROM {request} WHERE pipeline = $1 AND verb = 'feedback' AND done_at > now() - interval '1 day' ORDER BY id`), s.Cfg.Pipeline)
	if err != nil {
		return s.Fault("read failures of feedback", err)
	}
	if r.Feedback, err = pgx.CollectRows(rows, pgx.RowToStructByPos[feedback.Failure]); err != nil {
		return s.Fault("read failures of feedback", err)
	}
	return nil
}

const logEndSQL = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"

func reportServer(ctx context.Context, s *pgstore.Store, r *Report) error {
	err := s.Conn.QueryRow(ctx, "SELECT current_setting('server_version'), ("+logEndSQL+")::text").Scan(&r.Version, &r.End)
	if err != nil {
		return s.Fault("read the server's state", err)
	}
	return nil
}

// reportSlot reads the slot as JSON, since its columns differ by version.
func reportSlot(ctx context.Context, s *pgstore.Store, r *Report) error {
	slot := &Slot{Name: s.Cfg.Slot}
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

func reportCheckpoint(ctx context.Context, s *pgstore.Store, r *Report) (err error) {
	r.Checkpoint, err = s.CheckpointReport(ctx)
	return err
}

func reportHolder(ctx context.Context, s *pgstore.Store, r *Report) (err error) {
	r.Holder, err = s.Holder(ctx)
	return err
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

func reportSinks(ctx context.Context, s *pgstore.Store, r *Report) error {
	force, err := s.InForce(ctx)
	if err != nil {
		return err
	}
	counts := report.CountSinks(force)
	rows, err := s.Conn.Query(ctx, s.SQL(sinkCounts), s.Cfg.Pipeline)
	if err != nil {
		return s.Fault("count parked deliveries", err)
	}
	var c report.SinkCount
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

// Limit returns how much log the server keeps for the slot before the slot is lost; 0 if there is no limit, or if the slot is lost.
func (s *Slot) Limit() int64 {
	if safe, ok := s.Row["safe_wal_size"].(float64); ok && safe > 0 {
		return s.RetainedBytes + int64(safe)
	}
	return 0
}

// Lost says why the slot cannot be read any more; "" if it can.
func (s *Slot) Lost() string {
	if reason, _ := s.Row["invalidation_reason"].(string); reason != "" {
		return fmt.Sprintf("replication slot %s is invalidated (%s)", s.Name, reason)
	}
	if s.Row["wal_status"] == "lost" {
		return fmt.Sprintf("replication slot %s is lost: the server removed log that it needs (max_slot_wal_keep_size)", s.Name)
	}
	return ""
}

// Text shows the columns of pg_replication_slots that matter most.
func (s *Slot) Text() string {
	text := s.Name
	for _, column := range []string{"active", "wal_status", "confirmed_flush_lsn", "restart_lsn", "invalidation_reason", "conflicting"} {
		if v, ok := s.Row[column]; ok && v != nil && v != "" && (column != "conflicting" || v == true) {
			text += fmt.Sprintf(" %s=%v", column, v)
		}
	}
	return text
}
