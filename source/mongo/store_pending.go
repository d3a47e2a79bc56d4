package mongo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many documents one command looks at, so that the session is never busy for long.
const pendingWindow = 5000

// pendingCursor is where Pending goes on: in which table, and after which id.
type pendingCursor struct {
	Table string        `bson:"table"`
	After bson.RawValue `bson:"after,omitempty"`
}

// Pending lists pending documents by id, in windows. Those with parked deliveries are the poller's: they are left out. But where
// a status says pending although a delivery of the document is dead, an operator has reset it by hand, which is a replay:
// Pending puts a request for it into tailbox_request, and it is carried out as all are.
//
// The barrier is the cluster time of the last read. The lease is renewed after it, so that the log goes on behind the barrier even
// when nothing else happens.
func (s *stateStore) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	at, err := s.pendingStart(cursor)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.PendingRows{}
	if at, err = store.ListPending(ctx, at, limit, out, s.pendingWindow); err != nil {
		return nil, err
	}
	if at != nil {
		text, err := bson.MarshalExtJSON(at, true, false)
		if err != nil {
			return nil, fmt.Errorf("write cursor: %w", err)
		}
		out.Cursor = string(text)
	}
	now, err := clusterTime(ctx, s.client)
	if err != nil {
		return nil, err
	}
	out.Barrier, out.Commit = now.String(), uint64(now)
	_, err = s.renew(ctx)
	return out, err
}

// pendingStart is where a cursor points to; nil where no table is left.
func (s *stateStore) pendingStart(cursor string) (*pendingCursor, error) {
	if cursor == "" {
		return s.nextPending(""), nil
	}
	at := &pendingCursor{}
	if err := bson.UnmarshalExtJSON([]byte(cursor), true, at); err != nil {
		return nil, fmt.Errorf("read cursor %q: %w", cursor, err)
	}
	if s.table(at.Table) == nil {
		return nil, fmt.Errorf("read cursor %q: there is no such table", cursor)
	}
	return at, nil
}

// nextPending is the beginning of the next table with documents that say whether they are pending; "" is before the first.
func (s *stateStore) nextPending(table string) *pendingCursor {
	found := table == ""
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		if found && t.OnDelivered != outbox.Keep {
			return &pendingCursor{Table: t.String()}
		}
		found = found || t.String() == table
	}
	return nil
}

// A pendingID is the id of a pending document, as it is and as text.
type pendingID struct {
	raw  bson.RawValue
	text string
}

// pendingWindow looks at one window, and returns where the next one begins.
func (s *stateStore) pendingWindow(ctx context.Context, at *pendingCursor, limit int, out *checkpoint.PendingRows) (*pendingCursor, error) {
	t := s.table(at.Table)
	ids, err := s.pendingIDs(ctx, t, at)
	if err != nil {
		return nil, err
	}
	parked, dead, err := s.parkedAmong(ctx, t, ids)
	if err != nil {
		return nil, err
	}
	next := &pendingCursor{Table: at.Table, After: at.After}
	var reset []string
	for _, id := range ids {
		missing := id.text != "" && !parked[id.text]
		if missing && limit == 0 {
			return next, s.askForReset(ctx, at.Table, reset)
		}
		next.After = id.raw
		if missing {
			out.Rows = append(out.Rows, checkpoint.RowRef{Table: at.Table, ID: id.text})
			limit--
		} else if dead[id.text] {
			reset = append(reset, id.text)
		}
	}
	if len(ids) < pendingWindow {
		next = s.nextPending(at.Table)
	}
	return next, s.askForReset(ctx, at.Table, reset)
}

// pendingIDs reads a window of pending documents, in the order of ids. Ids of all types are compared.
func (s *stateStore) pendingIDs(ctx context.Context, t *outbox.Table, at *pendingCursor) ([]pendingID, error) {
	where := pendingOurs(t)
	if !at.After.IsZero() {
		where = append(where, bson.E{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$" + t.Columns.ID, literal(at.After)}}}})
	}
	fields := bson.D{{Key: t.Columns.ID, Value: 1}}
	if t.Columns.ID != "_id" {
		fields = append(fields, bson.E{Key: "_id", Value: 0})
	}
	cur, err := s.collection(t).Find(ctx, where, options.Find().SetSort(bson.D{{Key: t.Columns.ID, Value: 1}}).SetLimit(pendingWindow).SetProjection(fields))
	if err != nil {
		return nil, fault("list pending documents of "+t.String(), err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	var ids []pendingID
	dec := decoder{}
	for cur.Next(ctx) {
		v := valueOf(cur.Current, t.Columns.ID)
		text, err := dec.idText(v)
		if err != nil {
			text = nil // the log stops at such a document; here it is passed over
		}
		raw := windowEnd(v)
		ids = append(ids, pendingID{raw, string(text)})
	}
	return ids, fault("list pending documents of "+t.String(), cur.Err())
}

// parkedAmong tells which of the messages are parked and were dealt with, and which of them are dead although their document was dealt with.
func (s *stateStore) parkedAmong(ctx context.Context, t *outbox.Table, ids []pendingID) (parked, dead map[string]bool, err error) {
	if len(ids) == 0 || len(s.sinks) == 0 {
		return nil, nil, nil
	}
	texts := make([]string, len(ids))
	for i := range ids {
		texts[i] = ids[i].text
	}
	cur, err := s.parked.Find(ctx, s.ours(bson.E{Key: "message_id", Value: bson.D{{Key: "$in", Value: texts}}}), options.Find().SetProjection(viewFields()).SetHint(messageIndex))
	if err != nil {
		return nil, nil, fault("look for parked deliveries", err)
	}
	var found []*view
	if err := cur.All(ctx, &found); err != nil {
		return nil, nil, fault("look for parked deliveries", err)
	}
	parked, dead = make(map[string]bool), make(map[string]bool)
	resets := t.Columns.Status != "" && t.Words.Dead != t.Words.Pending
	for _, v := range found {
		if v.Table != t.String() || !v.RowSettled && !v.Unfinished {
			continue
		}
		parked[v.ID] = true
		if resets && v.State == checkpoint.StateDead && v.RowSettled && !v.Unfinished && !v.InTable {
			dead[v.ID] = true
		}
	}
	return parked, dead, nil
}

// askForReset asks for the replay of dead deliveries whose documents say that they are pending again, unless such a request is
// open already.
func (s *stateStore) askForReset(ctx context.Context, table string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	why := "documents of " + table + " were set to pending again"
	err := s.requests.FindOne(ctx, append(s.openRequests(), bson.E{Key: "verb", Value: string(checkpoint.VerbReplay)},
		bson.E{Key: "selection.refresh", Value: true}, bson.E{Key: "reason", Value: why})).Err()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, mongo.ErrNoDocuments):
		return fault("look for open requests", err)
	}
	_, err = s.ask(ctx, &checkpoint.Request{Verb: checkpoint.VerbReplay, Reason: why, By: "tailbox",
		Selection: store.ResetSelection(table, ids)})
	return err
}

// Fetch reads documents that are still pending, as messages at and after a position.
func (s *stateStore) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	ids := make(map[string][]string)
	for _, r := range rows {
		ids[r.Table] = append(ids[r.Table], r.ID)
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ms []*outbox.Message
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		if len(ids[t.String()]) == 0 || t.OnDelivered == outbox.Keep || bytes <= 0 {
			continue
		}
		found, err := s.readUpTo(ctx, t, ids[t.String()], pendingOurs(t), bytes)
		if err != nil {
			return nil, nil, err
		}
		ms = append(ms, found...)
		for _, m := range found {
			bytes -= m.Size()
		}
	}
	if len(ms) == 0 {
		return nil, nil, nil
	}
	if err := store.PlaceFound(ms, at, now); err != nil {
		return nil, nil, err
	}
	parkedAt, err := parkedAt(ctx, s.cfg.Pipeline, ms, func(where, fields bson.D) (*mongo.Cursor, error) {
		return s.parked.Find(ctx, where, options.Find().SetProjection(fields).SetHint(messageIndex))
	})
	return ms, parkedAt, err
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
	text, err := appendJSONDocument(nil, doc, 0)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
