package store

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/store/feedback"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Report is what `tailbox status` reports.
type Report struct {
	report.Report
	// Oplog is nil if the user may not see it.
	Oplog *OplogReport `json:"oplog"`
	// Holder is the process that holds the pipeline's lease; nil if no relay runs.
	Holder *lease.Report `json:"holder"`
}

// An OplogReport tells how far back the log reaches.
type OplogReport struct {
	First         string  `json:"first"`
	WindowSeconds float64 `json:"window_seconds"`
	Bytes         int64   `json:"bytes"`
	MaxBytes      int64   `json:"max_bytes"`
}

// ReadStatus reads the state of a pipeline.
func ReadStatus(ctx context.Context, cfg conn.Config) (status *Report, err error) {
	s, err := OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	ctx = s.lease.In(ctx)
	r := &Report{Report: report.Report{Pipeline: s.cfg.Pipeline}}
	h, err := conn.Greet(ctx, s.client)
	if err != nil {
		return nil, err
	}
	if r.SourceID, err = catalog.SourceID(ctx, &s.cfg, s.client, h); err != nil {
		return nil, err
	}
	var build struct {
		Version string `bson:"version"`
	}
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return nil, conn.Fault("ask for the server's version", err)
	}
	end, err := oplog.Now(ctx, s.client)
	if err != nil {
		return nil, err
	}
	r.Version, r.End = build.Version, end.String()
	if o, err := oplog.Read(ctx, s.client); err == nil && !h.Sharded() {
		r.Oplog = &OplogReport{First: o.First.String(), WindowSeconds: o.Window().Seconds(), Bytes: o.Size, MaxBytes: o.MaxSize}
	}
	if err := reportCheckpoint(ctx, s, r, end, h.LocalTime); err != nil {
		return nil, err
	}
	if r.Holder, err = lease.Read(ctx, s.client, &s.cfg); err != nil {
		return nil, err
	}
	return r, reportSinks(ctx, s, r, h.LocalTime)
}

func reportCheckpoint(ctx context.Context, s *Store, r *Report, end oplog.Time, now time.Time) error {
	var doc checkpointDocument
	err := s.checkpoints.FindOne(ctx, s.lease.Own()).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) || err == nil && doc.Resume == "" {
		return nil
	}
	if err != nil {
		return conn.Fault("read the checkpoint", err)
	}
	saved, err := doc.checkpoint()
	if err != nil {
		return err
	}
	r.Checkpoint = report.OfCheckpoint(saved, doc.Unclean, doc.UpdatedAt.UTC(), max(now.Sub(doc.UpdatedAt).Seconds(), 0))
	lag := 0.0
	if at, err := oplog.ParsePlace(source.Resume(doc.Resume)); err == nil && end > at.At {
		lag = float64(end>>32 - at.At>>32)
	}
	r.Checkpoint.LagSeconds = &lag
	for _, f := range doc.FeedbackFailures {
		if age := now.Sub(f.At); age < 24*time.Hour {
			r.Feedback = append(r.Feedback, feedback.Failure{Table: f.Table, Outcome: f.Outcome, Failed: f.Failed, Error: f.Error, AgeSeconds: max(age.Seconds(), 0)})
		}
	}
	return nil
}

// reportSinks counts what is parked.
func reportSinks(ctx context.Context, s *Store, r *Report, now time.Time) error {
	force, err := s.requests.inForce(ctx)
	if err != nil {
		return err
	}
	sinks := report.CountSinks(force)
	if err := s.parked.countStates(ctx, sinks, now); err != nil {
		return err
	}
	counts, err := s.parked.countLanes(ctx, &checkpoint.Selection{}, checkpoint.Lane{}, 0)
	if err != nil {
		return err
	}
	lanes := make([]checkpoint.Lane, len(counts))
	for i, c := range counts {
		lanes[i] = c.lane
	}
	heads, err := s.parked.heads(ctx, lanes)
	if err != nil {
		return conn.Fault("count lanes", err)
	}
	for _, lane := range lanes {
		sinks.AddLane(lane, heads[lane] != nil && heads[lane].State == checkpoint.StateDead)
	}
	sinks.Report(&r.Report)
	n, err := s.requests.CountDocuments(ctx, s.requests.open())
	r.OpenRequests = int(n)
	return conn.Fault("count open requests", err)
}

// countStates counts deliveries by sink, table and state, and finds the oldest.
func (c parkedCollection) countStates(ctx context.Context, sinks *report.SinkCounts, now time.Time) error {
	held := bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$eq", Value: bson.A{"$blocks", true}}}, "$changed_at", nil}}}
	// $max leaves out what is missing.
	since := bson.D{{Key: "$max", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$commit_time", "$parked_at"}}}, "$available_at"}}}
	cur, err := c.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: c.ours(bson.E{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}})}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "sink", Value: "$sink"}, {Key: "table", Value: "$source_table"},
			{Key: "state", Value: "$state"}}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}, {Key: "due", Value: bson.D{{Key: "$min", Value: "$next_attempt_at"}}},
			{Key: "held", Value: bson.D{{Key: "$min", Value: held}}}, {Key: "since", Value: bson.D{{Key: "$min", Value: since}}}}}},
	}, options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return conn.Fault("count parked deliveries", err)
	}
	var found []struct {
		ID struct {
			Sink  string           `bson:"sink"`
			Table string           `bson:"table"`
			State checkpoint.State `bson:"state"`
		} `bson:"_id"`
		N    int        `bson:"n"`
		Due  *time.Time `bson:"due"`
		Held *time.Time `bson:"held"`
		// Since is from when on the oldest message could have been delivered.
		Since *time.Time `bson:"since"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return conn.Fault("count parked deliveries", err)
	}
	for _, f := range found {
		var of report.SinkCount
		switch f.ID.State {
		case checkpoint.StateRetrying:
			of.Retrying = f.N
		case checkpoint.StateWaiting:
			of.Waiting = f.N
		default:
			of.Dead = f.N
			if f.Held != nil {
				of.HeldSeconds = now.Sub(*f.Held).Seconds()
			}
		}
		if f.Since != nil && f.ID.State != checkpoint.StateDead {
			of.UndeliveredSeconds = max(0, now.Sub(*f.Since).Seconds())
		}
		if f.Due != nil {
			of.DueSeconds = now.Sub(*f.Due).Seconds()
		}
		sinks.Add(f.ID.Sink, f.ID.Table, &of)
	}
	return nil
}
