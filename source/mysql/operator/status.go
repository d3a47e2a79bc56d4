package operator

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/stream"
	"github.com/tailbox/tailbox/source/store/feedback"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Report is what `tailbox status` reports.
type Report struct {
	report.Report
	// LagBytes is how much log there is after the checkpoint, RetainedBytes how much the server has at all.
	LagBytes      int64 `json:"lag_bytes"`
	RetainedBytes int64 `json:"retained_bytes"`
	// Poll is nil if the log is read.
	Poll *report.Poll `json:"poll,omitempty"`
	// Holder is the session that holds the pipeline's lock; nil if no relay runs.
	Holder *session.Holder `json:"holder"`
}

// Status reads the state of a pipeline.
func Status(ctx context.Context, cfg server.Config) (status *Report, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Conn.Close(ctx)) }()
	r := &Report{Report: report.Report{Pipeline: cfg.Pipeline, Version: s.Conn.Server.Text}}
	if r.SourceID, err = server.SourceID(ctx, s.Conn); err != nil {
		return nil, err
	}
	reports := []func(context.Context, *mystore.Store, *Report) error{reportCheckpoint, reportLog, reportHolder, reportSinks, reportFeedback}
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

func reportCheckpoint(ctx context.Context, s *mystore.Store, r *Report) error {
	var found mystore.CheckpointRow
	var savedAt time.Time
	var age float64
	b := s.Batch()
	b.Each(func(row session.Row) (err error) {
		if found, err = mystore.ReadCheckpoint(row); err != nil {
			return err
		}
		if savedAt, err = row.Time(9); err != nil {
			return err
		}
		age = float64(row.Num(10)) / 1e6
		return nil
	}, "SELECT "+mystore.CheckpointColumns+", updated_at, TIMESTAMPDIFF(MICROSECOND, updated_at, UTC_TIMESTAMP(6)) FROM {checkpoint} WHERE pipeline = ?", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("read the checkpoint", err)
	}
	r.Checkpoint = report.OfCheckpoint(found.Checkpoint, found.Unclean, savedAt, age)
	return nil
}

func reportFeedback(ctx context.Context, s *mystore.Store, r *Report) error {
	b := s.Batch()
	b.Each(func(row session.Row) error {
		r.Feedback = append(r.Feedback, feedback.Failure{Table: row.Text(0), Outcome: row.Text(1), Failed: int(row.Num(2)), Error: row.Text(3),
			AgeSeconds: float64(row.Num(4)) / 1e6})
		return nil
	}, `SELECT JSON_UNQUOTE(JSON_EXTRACT(selection, '$.table')), JSON_UNQUOTE(JSON_EXTRACT(selection, '$.outcome')), JSON_EXTRACT(result, '$.failed'), reason,
			TIMESTAMPDIFF(MICROSECOND, requested_at, UTC_TIMESTAMP(6))
		FROM {request} WHERE pipeline = ? AND verb = 'feedback' AND done_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY id`, s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("read failures of feedback", err)
	}
	return nil
}

// reportLog tells how much log there is.
func reportLog(ctx context.Context, s *mystore.Store, r *Report) error {
	end, err := server.ReadLogEnd(ctx, s.Conn)
	if err != nil {
		return err
	}
	r.End = end.String()
	files, err := server.ReadLogFiles(ctx, s.Conn)
	if err != nil {
		return err
	}
	for _, f := range files {
		r.RetainedBytes += int64(f.Size)
	}
	if r.Checkpoint == nil {
		return nil
	}
	r.LagBytes = stream.Lag(files, source.Resume(r.Checkpoint.Resume), r.SourceID)
	return nil
}

// reportSequence tells how far the sequence is, where the table is polled.
func reportSequence(ctx context.Context, s *mystore.Store, r *Report) (err error) {
	r.Poll, err = polling.Report(ctx, &s.Config, s.Conn)
	return err
}

func reportHolder(ctx context.Context, s *mystore.Store, r *Report) (err error) {
	r.Holder, err = s.Holder(ctx)
	return err
}

func reportSinks(ctx context.Context, s *mystore.Store, r *Report) error {
	force, err := s.InForce(ctx)
	if err != nil {
		return err
	}
	counts := report.CountSinks(force)
	b := s.Batch()
	b.Each(func(row session.Row) error {
		counts.Add(row.Text(0), row.Text(1), &report.SinkCount{Retrying: int(row.Num(2)), Waiting: int(row.Num(3)), Dead: int(row.Num(4)),
			DueSeconds: float64(row.Num(5)) / 1e6, HeldSeconds: float64(row.Num(6)) / 1e6,
			UndeliveredSeconds: max(0, float64(row.Num(7))/1e6)})
		return nil
	}, `SELECT sink, source_table, COUNT(CASE WHEN state = 'retrying' THEN 1 END), COUNT(CASE WHEN state = 'waiting' THEN 1 END), COUNT(CASE WHEN state = 'dead' THEN 1 END),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN next_attempt_at <= UTC_TIMESTAMP(6) THEN next_attempt_at END), UTC_TIMESTAMP(6)), 0),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN state = 'dead' AND blocks THEN changed_at END), UTC_TIMESTAMP(6)), 0),
		COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN state <> 'dead' THEN GREATEST(COALESCE(commit_time, parked_at), COALESCE(available_at, commit_time, parked_at)) END),
			UTC_TIMESTAMP(6)), 0)
		FROM {parked} WHERE pipeline = ? AND state IN ('retrying', 'waiting', 'dead') GROUP BY sink, source_table`, s.Config.Pipeline)
	// The first blocking delivery of each lane tells whether an operator is waited for.
	b.Each(func(row session.Row) error {
		counts.AddLane(checkpoint.Lane{Sink: row.Text(0), Group: row.Text(1)}, row.Bool(2))
		return nil
	}, `SELECT l.sink, l.message_group, p.state = 'dead' FROM (SELECT sink, message_group, MIN(position) AS first FROM {parked} FORCE INDEX (tailbox_parked_lane)
			WHERE pipeline = ? AND blocks = 1 GROUP BY sink, message_group) l
		STRAIGHT_JOIN {parked} p FORCE INDEX (tailbox_parked_lane)
			ON p.pipeline = ? AND p.blocks = 1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.position = l.first`,
		s.Config.Pipeline, s.Config.Pipeline)
	b.Each(func(row session.Row) error {
		r.OpenRequests = int(row.Num(0))
		return nil
	}, "SELECT COUNT(*) FROM {request} WHERE pipeline = ? AND done_at IS NULL", s.Config.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return server.Fault("count parked deliveries", err)
	}
	counts.Report(&r.Report)
	return nil
}
