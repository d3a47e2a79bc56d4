package relational

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
)

// A State is the statements for the pipeline's row of tailbox_checkpoint, and for what a store remembers.
type State interface {
	// CountStart counts a start as unclean, and reads the state but for what operators have in force and the server's name. It notes the
	// gap that was accepted.
	CountStart(ctx context.Context) (*checkpoint.Loaded, error)
	// SourceID names the server.
	SourceID(ctx context.Context) (string, error)
	// RecallParked notes which sinks have parked deliveries, and whether rows have still to be dealt with.
	RecallParked(ctx context.Context) error
	// WriteCheckpoint writes a checkpoint, and Saved notes what that means for the session.
	WriteCheckpoint(ctx context.Context, c *checkpoint.Checkpoint) error
	Saved(c *checkpoint.Checkpoint)
	// WriteStarted records what a start in safe mode is about to decode; "" is nothing.
	WriteStarted(ctx context.Context, candidate string) error
}

// Load implements checkpoint.Store: it reads the state, and counts the start as unclean until something is settled.
func (c *Core) Load(ctx context.Context) (*checkpoint.Loaded, error) {
	out, err := c.db.CountStart(ctx)
	if err != nil {
		return nil, err
	}
	force, err := c.InForce(ctx)
	if err != nil {
		return nil, err
	}
	c.Loaded(out, force)
	if out.SourceID, err = c.db.SourceID(ctx); err != nil {
		return nil, c.db.Fault("name the server", err)
	}
	return out, nil
}

// Remember implements operate.Reader.
func (c *Core) Remember(ctx context.Context) error {
	if err := c.db.RecallParked(ctx); err != nil {
		return c.db.Fault("load state", err)
	}
	force, err := c.InForce(ctx)
	if err != nil {
		return err
	}
	c.Holds = force.Held()
	return nil
}

// Save implements checkpoint.Store: it writes a checkpoint without outcomes.
func (c *Core) Save(ctx context.Context, to *checkpoint.Checkpoint) error {
	if err := c.db.WriteCheckpoint(ctx, to); err != nil {
		return c.db.Fault("save checkpoint", err)
	}
	c.db.Saved(to)
	return nil
}

// Starting implements checkpoint.Store: it records what a start in safe mode is about to decode.
func (c *Core) Starting(ctx context.Context, candidate checkpoint.CrashCandidate) error {
	if err := c.db.WriteStarted(ctx, candidate.String()); err != nil {
		return c.db.Fault("record the position about to be decoded", err)
	}
	c.Started = candidate != (checkpoint.CrashCandidate{})
	return nil
}
