package store

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many documents one command looks at, so that the session is never busy for long.
const pendingWindow = 5000

// Pending implements checkpoint.Store.
//
// The barrier is the cluster time of the last read. The lease is renewed after it, so that the log goes on behind the barrier even
// when nothing else happens.
func (s *Store) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	out, err := store.ListPending(ctx, s, s.tables.configured(), cursor, limit, s.cfg.Logger)
	if err != nil {
		return nil, err
	}
	now, err := oplog.Now(ctx, s.client)
	if err != nil {
		return nil, err
	}
	out.Barrier, out.Commit = now.String(), uint64(now)
	_, err = s.lease.Renew(ctx)
	return out, err
}

// Fetch implements checkpoint.Store.
func (s *Store) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	return store.Fetch(ctx, s, s.tables.configured(), rows, at, bytes)
}

// A pendingReader implements store.PendingReader: it compares users' documents that are pending with what is parked of them.
type pendingReader struct {
	tables   userTables
	parked   parkedCollection
	requests requestCollection
	sinks    map[string]bool // those of Memory
}

// PendingWindow implements store.PendingReader.
func (p pendingReader) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	t := p.tables.named(at.Table)
	ids, err := p.tables.pendingIDs(ctx, t, at)
	if err != nil {
		return nil, false, err
	}
	parked, dead, err := p.parkedAmong(ctx, t, ids)
	if err != nil {
		return nil, false, err
	}
	for _, id := range ids {
		rows = append(rows, store.PendingRow{ID: id.text, After: id.after(), Missing: id.text != "" && !parked[id.text], Reset: dead[id.text]})
	}
	return rows, len(ids) < pendingWindow, nil
}

// parkedAmong tells which of the messages are parked and were dealt with, and which of them are dead although their document was dealt with.
func (p pendingReader) parkedAmong(ctx context.Context, t *outbox.Table, ids []pendingID) (parked, dead map[string]bool, err error) {
	if len(ids) == 0 || len(p.sinks) == 0 {
		return nil, nil, nil
	}
	texts := make([]string, len(ids))
	for i := range ids {
		texts[i] = ids[i].text
	}
	found, err := p.parked.bareOf(ctx, texts)
	if err != nil {
		return nil, nil, conn.Fault("look for parked deliveries", err)
	}
	parked, dead = make(map[string]bool), make(map[string]bool)
	resets := t.Columns.Status != "" && !t.DeadLooksPending()
	for _, v := range found {
		if v.Content.Table != t.String() || !v.RowSettled && !v.Unfinished {
			continue
		}
		parked[v.ID] = true
		if resets && v.State == checkpoint.StateDead && v.RowSettled && !v.Unfinished && !v.InTable {
			dead[v.ID] = true
		}
	}
	return parked, dead, nil
}

// AskForReset implements store.PendingReader.
func (p pendingReader) AskForReset(ctx context.Context, table string, ids []string) error {
	asked := store.ResetRequest("documents", table, ids)
	err := p.requests.FindOne(ctx, append(p.requests.open(), bson.E{Key: "verb", Value: string(asked.Verb)},
		bson.E{Key: "selection.refresh", Value: true}, bson.E{Key: "reason", Value: asked.Reason})).Err()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, mongo.ErrNoDocuments):
		return conn.Fault("look for open requests", err)
	}
	_, err = p.requests.ask(ctx, asked)
	return err
}

// Clock implements store.PendingReader.
func (p pendingReader) Clock(ctx context.Context) (time.Time, error) {
	return conn.Now(ctx, p.tables.client)
}

// PendingRows implements store.PendingReader.
func (p pendingReader) PendingRows(ctx context.Context, t *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	return p.tables.readUpTo(ctx, t, ids, catalog.PendingOurs(t), bytes)
}

// ParkedAt implements store.PendingReader.
func (p pendingReader) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	return delivery.Sinks(ctx, p.parked.pipeline, ms, func(where, fields bson.D) (*mongo.Cursor, error) {
		return p.parked.Find(ctx, where, options.Find().SetProjection(fields).SetHint(catalog.MessageIndex))
	})
}
