package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// Examine implements source.Source. A SourceID is the replica set's name, the UUID of tailbox_checkpoint, which no two
// databases share, and a digest of the tables: with other tables the same rows have other positions.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (e *source.Examined, err error) {
	if s.err != nil {
		return nil, s.err
	}
	return Examine(ctx, &s.cfg, sourceID, from)
}

// Examine looks whether the log can be read on from a checkpoint of that source. See source.Source.
func Examine(ctx context.Context, cfg *conn.Config, sourceID string, from source.Resume) (e *source.Examined, err error) {
	client, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Disconnect(ctx, client)) }()
	h, err := conn.Greet(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := h.Usable(); err != nil {
		return nil, err
	}
	e = &source.Examined{}
	if e.SourceID, err = catalog.SourceID(ctx, cfg, client, h); err != nil || from == "" {
		return e, err
	}
	at, err := oplog.ParsePlace(from)
	if err != nil {
		return nil, fmt.Errorf("examine the checkpoint: %w", err)
	}
	same := sourceID == "" || sourceID == e.SourceID
	if !same && catalog.ServerOf(sourceID) != catalog.ServerOf(e.SourceID) {
		e.Lost = fmt.Sprintf("the checkpoint belongs to server %s, this is server %s", catalog.ServerOf(sourceID), catalog.ServerOf(e.SourceID))
		return e, nil
	}
	if at.Ended {
		e.Lost = "a collection of the outbox was dropped or renamed: what is in its place now has to be swept"
		return e, nil
	}
	if !h.Sharded() {
		if e.Lost, err = lostAnew(ctx, client, at.At); err != nil {
			return nil, err
		}
	}
	if e.Lost == "" {
		e.Lost, err = lost(ctx, cfg, client, at.At)
	}
	if err != nil {
		return nil, err
	}
	// The log is the same, but rows are counted in another way: what lies beyond the checkpoint is read again.
	e.Moved = !same && e.Lost == ""
	return e, nil
}
