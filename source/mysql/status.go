package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A Report is what `tailbox status` reports.
type Report struct {
	store.Report
	// LagBytes is how much log there is after the checkpoint, RetainedBytes how much the server has at all.
	LagBytes      int64 `json:"lag_bytes"`
	RetainedBytes int64 `json:"retained_bytes"`
	// Poll is nil where the log is read.
	Poll *store.PollReport `json:"poll,omitempty"`
	// Holder is the session that holds the pipeline's lock; nil where no relay runs.
	Holder *HolderReport `json:"holder"`
}

// A HolderReport is a session of the server.
type HolderReport struct {
	ID     int64  `json:"id"`
	User   string `json:"user"`
	Client string `json:"client"` // host and port, or localhost; "" where this account may not see it
	// Foreign: the session is no tailbox of this pipeline.
	Foreign bool `json:"foreign"`
}

// String is the session as people find it.
func (h *HolderReport) String() string {
	if h.User == "" {
		return fmt.Sprintf("connection %d of another account, which is shown to accounts with PROCESS alone", h.ID)
	}
	return fmt.Sprintf("user %s from %s, connection %d", h.User, h.Client, h.ID)
}

// Status reads the state of a pipeline.
func Status(ctx context.Context, cfg config) (report *Report, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sess.close(ctx)) }()
	r := &Report{Report: store.Report{Pipeline: cfg.Pipeline, Version: s.sess.server.text}}
	if r.SourceID, err = sourceID(ctx, s.sess); err != nil {
		return nil, err
	}
	reports := []func(context.Context, *stateStore, *Report) error{reportCheckpoint, reportLog, reportHolder, reportSinks, reportFeedback}
	if cfg.Poll {
		reports[1] = reportSequence
	}
	for _, read := range reports {
		if err := read(ctx, s, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func reportCheckpoint(ctx context.Context, s *stateStore, r *Report) error {
	var found checkpointRow
	var savedAt time.Time
	var age float64
	b := s.batch()
	b.each(func(row row) (err error) {
		if found, err = readCheckpoint(row); err != nil {
			return err
		}
		if savedAt, err = row.time(9); err != nil {
			return err
		}
		age = float64(row.num(10)) / 1e6
		return nil
	}, "SELECT "+checkpointColumns+", updated_at, TIMESTAMPDIFF(MICROSECOND, updated_at, UTC_TIMESTAMP(6)) FROM {checkpoint} WHERE pipeline = ?", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return storeFault("read the checkpoint", err)
	}
	r.Checkpoint = store.ReportCheckpoint(found.checkpoint, found.unclean, savedAt, age)
	return nil
}

func reportFeedback(ctx context.Context, s *stateStore, r *Report) error {
	b := s.batch()
	b.each(func(row row) error {
		r.Feedback = append(r.Feedback, store.FeedbackFailure{Table: row.text(0), Outcome: row.text(1), Failed: int(row.num(2)), Error: row.text(3),
			AgeSeconds: float64(row.num(4)) / 1e6})
		return nil
	}, `SELECT JSON_UNQUOTE(JSON_EXTRACT(selection, '$.table')), JSON_UNQUOTE(JSON_EXTRACT(selection, '$.outcome')), JSON_EXTRACT(result, '$.failed'), reason,
			TIMESTAMPDIFF(MICROSECOND, requested_at, UTC_TIMESTAMP(6))
		FROM {request} WHERE pipeline = ? AND verb = 'feedback' AND done_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY id`, s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return storeFault("read failures of feedback", err)
	}
	return nil
}

// reportLog tells how much log there is.
func reportLog(ctx context.Context, s *stateStore, r *Report) error {
	end, err := readLogEnd(ctx, s.sess)
	if err != nil {
		return err
	}
	r.End = end.String()
	files, err := readLogFiles(ctx, s.sess)
	if err != nil {
		return err
	}
	for _, f := range files {
		r.RetainedBytes += int64(f.size)
	}
	if r.Checkpoint == nil {
		return nil
	}
	r.LagBytes = lag(files, source.Resume(r.Checkpoint.Resume), r.SourceID)
	return nil
}

// reportSequence tells how far the sequence is, where the table is polled.
func reportSequence(ctx context.Context, s *stateStore, r *Report) (err error) {
	r.Poll, err = reportPoll(ctx, &s.cfg, s.sess)
	return err
}

func reportHolder(ctx context.Context, s *stateStore, r *Report) (err error) {
	r.Holder, err = s.holder(ctx)
	return err
}

// lockedBy is the error for a lock that somebody else holds.
func (s *relaySession) lockedBy(ctx context.Context) error {
	h, err := s.holder(ctx)
	if err != nil {
		return err
	}
	locked := &checkpoint.LockedError{Pipeline: s.cfg.Pipeline}
	if h != nil {
		locked.Holder, locked.Foreign, locked.Cure = h.String(), h.Foreign, fmt.Sprintf("KILL %d", h.ID)
	}
	return locked
}

// holder finds who holds the lock; nil for nobody. The lock's name is no secret, so it may be anybody: a relay of this pipeline is known by its
// user. Sessions of others are shown to accounts with PROCESS alone.
func (s *relaySession) holder(ctx context.Context) (h *HolderReport, err error) {
	b := s.batch()
	own := ""
	b.each(func(row row) error {
		own = row.text(1)
		if !row.null(0) {
			h = &HolderReport{ID: row.num(0), Foreign: true}
		}
		return nil
	}, "SELECT IS_USED_LOCK(?), SUBSTRING_INDEX(USER(), '@', 1)", s.lock)
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("look for the lock's holder", err)
	}
	if h == nil {
		return nil, nil
	}
	// The view PROCESSLIST would fail while any session is at a statement with a character that utf8mb3 lacks.
	b = s.batch()
	b.each(func(row row) error {
		const id, user, client = 0, 1, 2
		if row.num(id) == h.ID {
			h.User, h.Client, h.Foreign = row.text(user), row.text(client), row.text(user) != own
		}
		return nil
	}, "SHOW PROCESSLIST")
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("look for the lock's holder", err)
	}
	return h, nil
}

func reportSinks(ctx context.Context, s *stateStore, r *Report) error {
	force, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	counts := store.CountSinks(force)
	b := s.batch()
	b.each(func(row row) error {
		counts.Add(row.text(0), row.text(1), &store.SinkReport{Retrying: int(row.num(2)), Waiting: int(row.num(3)), Dead: int(row.num(4)),
			DueSeconds: float64(row.num(5)) / 1e6, HeldSeconds: float64(row.num(6)) / 1e6,
			UndeliveredSeconds: max(0, float64(row.num(7))/1e6)})
		return nil
	}, `SELECT sink, source_table, COUNT(CASE WHEN state = 'retrying' THEN 1 END), COUNT(CASE WHEN state = 'waiting' THEN 1 END), COUNT(CASE WHEN state = 'dead' THEN 1 END),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN next_attempt_at <= UTC_TIMESTAMP(6) THEN next_attempt_at END), UTC_TIMESTAMP(6)), 0),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN state = 'dead' AND blocks THEN changed_at END), UTC_TIMESTAMP(6)), 0),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN state <> 'dead' THEN GREATEST(COALESCE(commit_time, parked_at), COALESCE(available_at, commit_time, parked_at)) END),
			UTC_TIMESTAMP(6)), 0)
		FROM {parked} WHERE pipeline = ? AND state IN ('retrying', 'waiting', 'dead') GROUP BY sink, source_table`, s.cfg.Pipeline)
	// The first blocking delivery of each lane tells whether an operator is waited for.
	b.each(func(row row) error {
		counts.AddLane(checkpoint.Lane{Sink: row.text(0), Group: row.text(1)}, row.bool(2))
		return nil
	}, `SELECT l.sink, l.message_group, p.state = 'dead' FROM (SELECT sink, message_group, MIN(position) AS first FROM {parked} FORCE INDEX (tailbox_parked_lane)
			WHERE pipeline = ? AND blocks = 1 GROUP BY sink, message_group) l
		STRAIGHT_JOIN {parked} p FORCE INDEX (tailbox_parked_lane)
			ON p.pipeline = ? AND p.blocks = 1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.position = l.first`,
		s.cfg.Pipeline, s.cfg.Pipeline)
	b.each(func(row row) error {
		r.OpenRequests = int(row.num(0))
		return nil
	}, "SELECT COUNT(*) FROM {request} WHERE pipeline = ? AND done_at IS NULL", s.cfg.Pipeline)
	if err := s.send(ctx, b); err != nil {
		return storeFault("count parked deliveries", err)
	}
	counts.Report(&r.Report)
	return nil
}
