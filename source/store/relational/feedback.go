package relational

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// A Feeder carries out feedback inside the transaction of an attempt.
type Feeder interface {
	// ReadKeys reads parked deliveries.
	ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error)
	// AwaitRows waits until statements find what was written together with the messages (R5).
	AwaitRows(ctx context.Context, told []feedback.Told) error
	// FeedChunk and Hopeless are Chunk and Hopeless of feedback.Run.
	FeedChunk(ctx context.Context, chunk []feedback.Told) (failed int, why error, err error)
	Hopeless(why error) bool
}

// InitFeedback reads what the tables have to tell business rows. Counted is that of feedback.Report.
func (c *Core) InitFeedback(parse func(kind, text string) (*source.Feedback, error), counted func(table, outcome string, n int, why error)) (err error) {
	c.report = &feedback.Report{Counted: counted, Logger: c.log}
	c.statements, err = feedback.Compile(c.Configured(), parse)
	return err
}

// FeedBack tells business rows what an attempt has done. It comes when that is known, and before the checkpoint.
func (c *Core) FeedBack(ctx context.Context, a *Attempt, by Feeder) (err error) {
	if c.statements == nil {
		return nil
	}
	run := feedback.Run{Chunk: by.FeedChunk, Hopeless: by.Hopeless, Passing: c.db.Passing, Report: c.report}
	a.Fed, err = run.Tell(ctx, a.Unfed, func() ([]feedback.Told, error) {
		told, err := c.statements.Tell(ctx, a.In, a.Messages.Order, a.Skipped, a.Superseded, by.ReadKeys)
		if err != nil {
			return nil, err
		}
		return told, by.AwaitRows(ctx, told)
	})
	return err
}

// Failures are those of feedback that are due to be written down.
func (c *Core) Failures() []feedback.Failure {
	if c.statements == nil {
		return nil
	}
	return c.report.Failures()
}
