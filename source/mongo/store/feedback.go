package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/update"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/feedback"
)

const (
	// A transaction of MongoDB has no savepoints: an update that fails ends it. So a settlement begins anew without the updates
	// that failed, at most feedbackFaults times, and at most feedbackConflicts times because of documents that others have changed;
	// then without feedback.
	feedbackFaults    = 5
	feedbackConflicts = 8
)

// errFeedbackTime: the updates of a settlement, begun anew or not, took too long. One that finds its document by no index must not keep the
// outbox from being settled.
var errFeedbackTime = fmt.Errorf("the feedback of a settlement took more than %v: give the collections indexes by which its filters find documents", feedback.Time)

// A teller is what a store needs to tell business documents.
type teller struct {
	updates feedback.Statements
	parsed  map[*source.Feedback]*update.Template
	report  *feedback.Report
	// last are the failures that were written down.
	last map[string]bson.D
}

func (s *Store) newFeedback() (f teller, err error) {
	f.parsed = make(map[*source.Feedback]*update.Template)
	f.updates, err = feedback.Compile(s.tables.configured(), func(kind, text string) (*source.Feedback, error) {
		parsed, err := source.ParseFeedbackDocument(kind, text)
		if err != nil {
			return nil, err
		}
		f.parsed[parsed], err = update.Parse(text)
		return parsed, err
	})
	f.report = &feedback.Report{Counted: s.cfg.Feedback, Logger: s.cfg.Logger}
	f.last = make(map[string]bson.D)
	return f, err
}

// A feedbackError ended a transaction.
type feedbackError struct {
	err error
	// failing are the updates one of which failed.
	failing []feedback.Told
	// late: there was no time left.
	late bool
}

func (e *feedbackError) Error() string { return "feedback: " + e.err.Error() }
func (e *feedbackError) Unwrap() error { return e.err }

// untold is what a settlement that begins anew leaves out.
type untold struct {
	all       error // everything, for this reason
	each      map[toldKey]error
	conflicts int
	took      time.Duration // what feedback took, of feedback.Time
}

type toldKey struct {
	feedback *source.Feedback
	id, sink string
}

func keyOfTold(t *feedback.Told) toldKey { return toldKey{t.Feedback, t.Outcome.RowID, t.Outcome.Sink} }

// blame notes why a settlement failed, if feedback did it: true = it begins anew.
func (u *untold) blame(err error) bool {
	var fe *feedbackError
	if !errors.As(err, &fe) || u.all != nil {
		return false
	}
	if fe.late { // before the labels: a client that does not wait any longer sees a transient error
		u.all = fmt.Errorf("%w: %w", errFeedbackTime, fe.err)
		return true
	}
	if conn.HasLabel(err, conn.TransientLabel) {
		if u.conflicts++; u.conflicts >= feedbackConflicts {
			u.all = fe.err
		}
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, mongo.ErrClientDisconnected) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		return false
	}
	// The server refused an update, or the driver did.
	if u.each == nil {
		u.each = make(map[toldKey]error)
	}
	if len(fe.failing) != 1 || len(u.each) >= feedbackFaults || conn.HasCode(err, conn.CodeUnauthorized) {
		u.all = fe.err
		return true
	}
	u.each[keyOfTold(&fe.failing[0])] = fe.err
	return true
}

// feedBack tells business documents what the settlement has done. It comes when that is known, and before what is parked is
// cleaned up.
func (a *attempt) feedBack(ctx context.Context) error {
	f := &a.s.feedback
	if f.updates == nil {
		return nil
	}
	f.report.Begin()
	var messages []*store.Message
	for _, m := range a.order {
		if m.touched {
			d := m.decided()
			d.Locked = m.locked
			messages = append(messages, d)
		}
	}
	told, err := f.updates.Tell(ctx, a.In, messages, a.Skipped, a.Superseded, a.readKeys)
	if err != nil || len(told) == 0 {
		return err
	}
	if a.untold.all != nil {
		f.report.GiveUp(told, a.untold.all)
		return a.noteFailures(ctx)
	}
	if err := a.tell(ctx, told); err != nil {
		return err
	}
	return a.noteFailures(ctx)
}

// tell carries updates out, in the time that is left for them.
func (a *attempt) tell(ctx context.Context, told []feedback.Told) error {
	f := &a.s.feedback
	named := make(map[string]*mongo.Collection)
	last := make(map[string]*feedbackBatch)
	var batches []*feedbackBatch
	for i := range told {
		t := &told[i]
		u := f.parsed[t.Feedback]
		why := a.untold.each[keyOfTold(t)]
		var model mongo.WriteModel
		if why == nil {
			model, why = u.Model(&t.Outcome)
		}
		if why != nil {
			f.report.Failed(told[i:i+1], why)
			continue
		}
		name := u.Collection
		if named[name] == nil {
			named[name] = a.s.tables.business(t.Outcome.Message.Table, name)
		}
		b := last[name]
		if b == nil || b.told[0].Kind != t.Kind || b.told[0].Outcome.Message.Table != t.Outcome.Message.Table {
			b = &feedbackBatch{to: named[name]}
			last[name], batches = b, append(batches, b)
		}
		b.told, b.models = append(b.told, *t), append(b.models, model)
	}
	began := time.Now() // what it takes to make the updates is not the collections' fault
	defer func() { a.untold.took += time.Since(began) }()
	limited, cancel := context.WithTimeout(ctx, feedback.Time-a.untold.took)
	defer cancel()
	for _, b := range batches {
		if err := b.do(limited, f.report); err != nil {
			err.late = ctx.Err() == nil && (limited.Err() != nil || mongo.IsTimeout(err) || conn.HasCode(err, conn.CodeMaxTimeExpired))
			return err
		}
	}
	return nil
}

// feedbackBatch are updates of one collection, about one outcome of one table: the answer counts documents, without saying which updates
// found one.
type feedbackBatch struct {
	to     *mongo.Collection
	told   []feedback.Told
	models []mongo.WriteModel
}

func (b *feedbackBatch) do(ctx context.Context, report *feedback.Report) *feedbackError {
	result, err := b.to.BulkWrite(ctx, b.models, options.BulkWrite().SetOrdered(true))
	if err == nil {
		missed := len(b.told) - int(result.MatchedCount+result.UpsertedCount)
		for i := range missed {
			b.told[i].Unchanged = true
			if missed < len(b.told) {
				b.told[i].Outcome.RowID = "" // it may be another one
			}
		}
		report.Done(b.told)
		return nil
	}
	failing := b.told
	var we mongo.BulkWriteException
	if errors.As(err, &we) && len(we.WriteErrors) == 1 {
		if i := we.WriteErrors[0].Index; i >= 0 && i < len(failing) {
			failing = failing[i : i+1]
		}
	}
	return &feedbackError{err: err, failing: failing}
}

// readKeys reads parked deliveries.
func (a *attempt) readKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error) {
	wanted := make(map[checkpoint.Key]bool, len(keys))
	ids := make(bson.A, 0, len(keys))
	for _, k := range keys {
		wanted[k] = true
		ids = append(ids, k.ID)
	}
	docs, err := a.s.parked.documents(ctx, a.s.parked.ours(bson.E{Key: "message_id", Value: bson.D{{Key: "$in", Value: ids}}}))
	if err != nil {
		return nil, conn.Fault("read parked deliveries", err)
	}
	var out []checkpoint.Parked
	for _, d := range docs {
		p, err := d.Delivery(a.now)
		if err != nil {
			return nil, err
		}
		if wanted[p.Key()] {
			out = append(out, p)
		}
	}
	return out, nil
}

// noteFailures writes down what failed, where an operator looks for it: in the pipeline's document.
func (a *attempt) noteFailures(ctx context.Context) error {
	f := &a.s.feedback
	failures := f.report.Failures()
	if len(failures) == 0 {
		return nil
	}
	for _, failure := range failures {
		f.last[failure.Table+" "+failure.Outcome] = bson.D{{Key: "table", Value: document.Literal(failure.Table)}, {Key: "outcome", Value: document.Literal(failure.Outcome)},
			{Key: "failed", Value: failure.Failed}, {Key: "error", Value: document.Literal(failure.Error)}, {Key: "at", Value: "$$NOW"}}
	}
	all := make(bson.A, 0, len(f.last))
	for _, d := range f.last {
		all = append(all, d)
	}
	_, err := a.s.checkpoints.UpdateOne(ctx, a.s.lease.Held(), bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "feedback_failures", Value: all}}}}})
	return err
}

// A failureDocument is what is written down about feedback that failed.
type failureDocument struct {
	Table   string    `bson:"table"`
	Outcome string    `bson:"outcome"`
	Failed  int       `bson:"failed"`
	Error   string    `bson:"error"`
	At      time.Time `bson:"at"`
}
