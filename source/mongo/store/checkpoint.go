package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// checkpointDocument is a document of tailbox_checkpoint without the lease. Unsigned numbers are stored in the bits of signed
// ones.
type checkpointDocument struct {
	SourceID     string       `bson:"source_id"`
	Resume       string       `bson:"resume"`
	Log          int64        `bson:"log"`
	LastCommit   int64        `bson:"last_commit"`
	SettledAbove []sinkRanges `bson:"settled_above"`
	SweepPending bool         `bson:"sweep_pending"`
	Started      string       `bson:"started"`
	Unclean      int          `bson:"unclean_starts"`
	UpdatedAt    time.Time    `bson:"updated_at"`

	FeedbackFailures []failureDocument `bson:"feedback_failures"`
}

// sinkRanges are the settled positions beyond a checkpoint of one sink, as texts.
type sinkRanges struct {
	Sink   string      `bson:"sink"`
	Ranges [][2]string `bson:"ranges"`
}

// checkpoint is the document's checkpoint; nil if none was saved yet.
func (d *checkpointDocument) checkpoint() (*checkpoint.Checkpoint, error) {
	if d.Resume == "" {
		return nil, nil
	}
	c := &checkpoint.Checkpoint{SourceID: d.SourceID, Resume: source.Resume(d.Resume), Log: uint32(d.Log),
		LastCommit: uint64(d.LastCommit), SweepPending: d.SweepPending}
	for _, s := range d.SettledAbove {
		if c.SettledAbove == nil {
			c.SettledAbove = make(map[string][]checkpoint.Range)
		}
		for _, pair := range s.Ranges {
			first, err := outbox.ParsePosition(pair[0])
			if err != nil {
				return nil, fmt.Errorf("read settled_above of sink %s: %w", s.Sink, err)
			}
			last, err := outbox.ParsePosition(pair[1])
			if err != nil {
				return nil, fmt.Errorf("read settled_above of sink %s: %w", s.Sink, err)
			}
			c.SettledAbove[s.Sink] = append(c.SettledAbove[s.Sink], checkpoint.Range{First: first, Last: last})
		}
	}
	return c, nil
}

// rangesOf is SettledAbove as it is stored, sinks in order.
func rangesOf(above map[string][]checkpoint.Range) []sinkRanges {
	out := make([]sinkRanges, 0, len(above))
	for sink, ranges := range above {
		pairs := make([][2]string, len(ranges))
		for i, r := range ranges {
			pairs[i] = [2]string{r.First.String(), r.Last.String()}
		}
		out = append(out, sinkRanges{sink, pairs})
	}
	slices.SortFunc(out, func(a, b sinkRanges) int { return cmp.Compare(a.Sink, b.Sink) })
	return out
}

// checkpointFields are what a saved checkpoint sets, and with it that the start was a clean one.
func checkpointFields(c *checkpoint.Checkpoint) bson.D {
	return bson.D{{Key: "source_id", Value: document.Literal(c.SourceID)}, {Key: "resume", Value: document.Literal(string(c.Resume))},
		{Key: "log", Value: int64(c.Log)}, {Key: "last_commit", Value: int64(c.LastCommit)},
		{Key: "settled_above", Value: document.Literal(rangesOf(c.SettledAbove))}, {Key: "sweep_pending", Value: c.SweepPending},
		{Key: "started", Value: ""}, {Key: "unclean_starts", Value: 0}}
}

// cleanFields record that something was settled, without a checkpoint.
func cleanFields() bson.D {
	return bson.D{{Key: "started", Value: ""}, {Key: "unclean_starts", Value: 0}}
}

// Save writes a checkpoint without outcomes.
func (s *Store) Save(ctx context.Context, c *checkpoint.Checkpoint) error {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if c.Log != s.Log && s.Gap != 0 {
		_, err := s.settle(ctx, &checkpoint.Settlement{Checkpoint: func([]int) *checkpoint.Checkpoint { return c }}, nil, nil)
		return err
	}
	sent := time.Now()
	if err := s.lease.Prove(ctx, checkpointFields(c)); err != nil {
		return conn.Fault("save checkpoint", err)
	}
	s.lease.Proved(sent)
	s.Saved(c)
	return nil
}

// acceptGap closes the requests to accept a gap that a newly established position has used up. Those made after the start
// looked for them are left, and so are those for another checkpoint: nobody has acted on them.
func (s *Store) acceptGap(ctx context.Context) error {
	var now checkpointDocument
	if err := s.checkpoints.FindOne(ctx, s.lease.Own()).Decode(&now); err != nil {
		return err
	}
	result, err := documentOf(&store.RequestResult{Changed: 1, Note: "the gap was accepted"})
	if err != nil {
		return err
	}
	_, err = s.requests.UpdateMany(ctx, append(s.requests.open(), bson.E{Key: "verb", Value: string(checkpoint.VerbAcceptGap)},
		bson.E{Key: "_id", Value: bson.D{{Key: "$lte", Value: s.Gap}}}, bson.E{Key: "selection.from", Value: now.Resume}),
		bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "done_at", Value: "$$NOW"}, {Key: "result", Value: document.Literal(result)}}}}})
	return err
}

// Starting records the position that a cautious start is about to decode.
func (s *Store) Starting(ctx context.Context, candidate checkpoint.CrashCandidate) error {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := s.lease.Prove(ctx, bson.D{{Key: "started", Value: candidate.String()}}); err != nil {
		return conn.Fault("record the position about to be decoded", err)
	}
	s.Started = candidate != (checkpoint.CrashCandidate{})
	return nil
}

// SavedCheckpoint reads the checkpoint; nil if none was saved.
func (s *Store) SavedCheckpoint(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var doc checkpointDocument
	err := s.checkpoints.FindOne(ctx, s.lease.Own()).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, conn.Fault("read the checkpoint", err)
	}
	return doc.checkpoint()
}
