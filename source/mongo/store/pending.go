package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/document"
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
	out, err := store.ListPending(ctx, s, s.configured(), cursor, limit, s.cfg.Logger)
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

// A pendingID is the id of a pending document, as it is and as text.
type pendingID struct {
	raw  bson.RawValue
	text string
}

// PendingWindow implements store.PendingReader.
func (s *Store) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	t := s.table(at.Table)
	ids, err := s.pendingIDs(ctx, t, at)
	if err != nil {
		return nil, false, err
	}
	parked, dead, err := s.parkedAmong(ctx, t, ids)
	if err != nil {
		return nil, false, err
	}
	for _, id := range ids {
		rows = append(rows, store.PendingRow{ID: id.text, After: id.after(), Missing: id.text != "" && !parked[id.text], Reset: dead[id.text]})
	}
	return rows, len(ids) < pendingWindow, nil
}

// after is the id as it stands in a cursor: its type, and its bytes.
func (id *pendingID) after() []byte { return append([]byte{byte(id.raw.Type)}, id.raw.Value...) }

// behindCursor adds the condition for documents behind a cursor.
func behindCursor(where bson.D, t *outbox.Table, at *store.Cursor) bson.D {
	if len(at.After) == 0 {
		return where
	}
	after := bson.RawValue{Type: bson.Type(at.After[0]), Value: at.After[1:]}
	return append(where, bson.E{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$" + t.Columns.ID, document.Literal(after)}}}})
}

// pendingIDs reads a window of pending documents, in the order of ids. Ids of all types are compared.
func (s *Store) pendingIDs(ctx context.Context, t *outbox.Table, at *store.Cursor) ([]pendingID, error) {
	where := behindCursor(catalog.PendingOurs(t), t, at)
	fields := bson.D{{Key: t.Columns.ID, Value: 1}}
	if t.Columns.ID != "_id" {
		fields = append(fields, bson.E{Key: "_id", Value: 0})
	}
	cur, err := s.collection(t).Find(ctx, where, options.Find().SetSort(bson.D{{Key: t.Columns.ID, Value: 1}}).SetLimit(pendingWindow).SetProjection(fields))
	if err != nil {
		return nil, conn.Fault("list pending documents of "+t.String(), err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	var ids []pendingID
	dec := document.Decoder{}
	for cur.Next(ctx) {
		v := document.Field(cur.Current, t.Columns.ID)
		text, err := dec.IDText(v)
		if err != nil {
			text = nil // the log stops at such a document; here it is passed over
		}
		raw := windowEnd(v)
		ids = append(ids, pendingID{raw, string(text)})
	}
	return ids, conn.Fault("list pending documents of "+t.String(), cur.Err())
}

// parkedAmong tells which of the messages are parked and were dealt with, and which of them are dead although their document was dealt with.
func (s *Store) parkedAmong(ctx context.Context, t *outbox.Table, ids []pendingID) (parked, dead map[string]bool, err error) {
	if len(ids) == 0 || len(s.Sinks) == 0 {
		return nil, nil, nil
	}
	texts := make([]string, len(ids))
	for i := range ids {
		texts[i] = ids[i].text
	}
	cur, err := s.parked.Find(ctx, s.ours(bson.E{Key: "message_id", Value: bson.D{{Key: "$in", Value: texts}}}), options.Find().SetProjection(delivery.BareFields()).SetHint(catalog.MessageIndex))
	if err != nil {
		return nil, nil, conn.Fault("look for parked deliveries", err)
	}
	found, err := delivery.All(ctx, cur)
	if err != nil {
		return nil, nil, conn.Fault("look for parked deliveries", err)
	}
	parked, dead = make(map[string]bool), make(map[string]bool)
	resets := t.Columns.Status != "" && t.Words.Dead != t.Words.Pending
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
func (s *Store) AskForReset(ctx context.Context, table string, ids []string) error {
	asked := store.ResetRequest("documents", table, ids)
	err := s.requests.FindOne(ctx, append(s.openRequests(), bson.E{Key: "verb", Value: string(asked.Verb)},
		bson.E{Key: "selection.refresh", Value: true}, bson.E{Key: "reason", Value: asked.Reason})).Err()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, mongo.ErrNoDocuments):
		return conn.Fault("look for open requests", err)
	}
	_, err = s.ask(ctx, asked)
	return err
}

// Fetch implements checkpoint.Store.
func (s *Store) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	return store.Fetch(ctx, s, s.configured(), rows, at, bytes)
}

// Clock implements store.PendingReader.
func (s *Store) Clock(ctx context.Context) (time.Time, error) { return s.now(ctx) }

// PendingRows implements store.PendingReader.
func (s *Store) PendingRows(ctx context.Context, t *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	return s.readUpTo(ctx, t, ids, catalog.PendingOurs(t), bytes)
}

// ParkedAt implements store.PendingReader.
func (s *Store) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	return delivery.Sinks(ctx, s.cfg.Pipeline, ms, func(where, fields bson.D) (*mongo.Cursor, error) {
		return s.parked.Find(ctx, where, options.Find().SetProjection(fields).SetHint(catalog.MessageIndex))
	})
}

// documentOf is a value with JSON tags as a document: what is stored reads the same in mongosh as in SQL.
func documentOf(v any) (bson.D, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var d bson.D
	return d, bson.UnmarshalExtJSON(text, false, &d)
}

// valueFrom reads what documentOf made.
func valueFrom(doc bson.Raw, v any) error {
	if len(doc) == 0 {
		return nil
	}
	text, err := document.JSON(doc)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// windowEnd is the id behind which the next window of documents begins, in an order by id. Documents without one come before all
// others, with those where it is null; nothing can be found by such an id, so all of them are passed.
func windowEnd(id document.Value) bson.RawValue {
	if id.Type == 0 {
		return bson.RawValue{Type: bson.TypeNull}
	}
	raw := id.RawValue()
	raw.Value = slices.Clone(raw.Value)
	return raw
}
