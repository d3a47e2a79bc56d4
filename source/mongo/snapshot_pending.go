package mongo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/store"
)

// parkedAtOnce is how many swept documents are looked up among the parked deliveries at a time.
const parkedAtOnce = 500

// Pending implements source.Snapshot. Tables come in their configured order. The documents of one are ordered by the sequence
// column, then by created_at, and then as they lie in the collection, which is as they were inserted: MongoDB does not keep
// the time of a document's commit.
func (s *tableSnapshot) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	h, err := greet(ctx, s.client)
	if err != nil {
		return err
	}
	p := &store.Sweep{Log: log, Now: h.LocalTime.UTC(), Emit: emit}
	for _, sw := range s.sweeps {
		if err := s.pendingOf(ctx, sw, p); err != nil {
			return sw.broken(err)
		}
	}
	return p.Flush(ctx)
}

// broken says what becomes of a sweep that ended before its time. It cannot go on in a later snapshot, which holds documents that the log will
// bring too, and does not say which ones these are. It begins again, at a new position: with documents that the relay deletes or marks there are fewer
// each time, while those that it keeps would all be sent again, without an end.
func (sw *sweep) broken(err error) error {
	switch {
	case hasCode(err, codeSnapshotTooOld) && sw.table.OnDelivered == outbox.Keep:
		return fmt.Errorf("%w: sweep collection %s: it took longer than the server keeps a snapshot, and would take as long again, with all that was sent already: "+
			"let each member of the replica set keep snapshots for longer than the sweep takes, such as a day: "+
			"db.adminCommand({setParameter: 1, minSnapshotHistoryWindowInSeconds: 86400}): %w", source.ErrStop, sw.table, err)
	case hasCode(err, codeSnapshotTooOld, codeSnapshotUnavail):
		return fmt.Errorf("sweep collection %s: it took longer than the server keeps a snapshot (minSnapshotHistoryWindowInSeconds); "+
			"what is still pending is swept again: %w", sw.table, err)
	}
	return err
}

// sweepOrder is how a table's documents are sorted; nil where it has no column for it.
func sweepOrder(t *outbox.Table) bson.D {
	var by bson.D
	for _, name := range []string{t.Columns.Seq, t.Columns.CreatedAt} {
		if name != "" {
			by = append(by, bson.E{Key: name, Value: 1})
		}
	}
	return by
}

// pendingOf emits the documents of one table, as they come from the server.
func (s *tableSnapshot) pendingOf(ctx context.Context, sw sweep, p *store.Sweep) (err error) {
	doing := "read pending documents of " + sw.table.String()
	further := []bson.E{{Key: "hint", Value: bson.D{{Key: "$natural", Value: 1}}}, {Key: "batchSize", Value: parkedAtOnce}}
	if order := sweepOrder(sw.table); order != nil {
		further = append(further, bson.E{Key: "sort", Value: order}, bson.E{Key: "allowDiskUse", Value: true})
	}
	cur, err := s.find(ctx, sw.table.Schema, sw.table.Name, sw.where, further...)
	if err != nil {
		return fault(doing, err)
	}
	defer func() { _ = cur.Close(ctx) }() // at the end the server has closed it
	cur.SetBatchSize(parkedAtOnce)
	plan := newPlan(sw.table)
	dec := decoder{maxMessage: s.cfg.MaxMessage}
	var ms []*outbox.Message
	bytes := 0
	for cur.Next(ctx) {
		m := dec.NewMessage()
		if err := dec.decode(plan, cur.Current, m); err != nil {
			return err
		}
		if m.ID == "" {
			m.ID = outbox.StandInID("row-" + recordName(cur.Current))
		}
		ms = append(ms, m)
		bytes += m.Size()
		if len(ms) == parkedAtOnce || bytes > batches.MaxBytes {
			if err := s.emitPending(ctx, ms, p); err != nil {
				return err
			}
			ms, bytes = nil, 0
		}
	}
	if err := cur.Err(); err != nil {
		return fault(doing, err)
	}
	return s.emitPending(ctx, ms, p)
}

// recordName is the text of a document's _id, or a hash of it: another name of the document, which does not change.
func recordName(doc bson.Raw) string {
	text, err := appendJSON(nil, valueOf(doc, "_id"), 0)
	if err != nil || len(text) > outbox.MaxIndexed/2 {
		sum := sha256.Sum256(append(text, doc.Lookup("_id").Value...))
		return hex.EncodeToString(sum[:])
	}
	return string(text)
}

func (s *tableSnapshot) emitPending(ctx context.Context, ms []*outbox.Message, p *store.Sweep) error {
	if len(ms) == 0 {
		return nil
	}
	// Of the same time: what the poller delivers meanwhile is parked in it, and left out.
	at, err := parkedAt(ctx, s.cfg.Pipeline, ms, func(where, fields bson.D) (*mongo.Cursor, error) {
		return s.find(ctx, s.cfg.Schema, parkedCollection, where, bson.E{Key: "projection", Value: fields}, bson.E{Key: "hint", Value: messageIndex})
	})
	if err != nil {
		return err
	}
	for i, m := range ms {
		var sinks []string
		if at != nil {
			sinks = at[i]
		}
		if err := p.Add(ctx, m, sinks); err != nil {
			return err
		}
	}
	return nil
}

// parkedAt names for each message the sinks that have a delivery of it parked, in whatever state: also of a delivery that was
// dropped or delivered, a document is kept until its message is settled. Nil where nothing is.
func parkedAt(ctx context.Context, pipeline string, ms []*outbox.Message, find func(where, fields bson.D) (*mongo.Cursor, error)) ([][]string, error) {
	places := make(map[store.MessageKey]int, len(ms))
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i], places[store.MessageKey{Table: m.Table, ID: m.ID}] = m.ID, i
	}
	cur, err := find(bson.D{{Key: "pipeline", Value: pipeline}, {Key: "message_id", Value: bson.D{{Key: "$in", Value: ids}}}},
		bson.D{{Key: "_id", Value: 0}, {Key: "message_id", Value: 1}, {Key: "source_table", Value: 1}, {Key: "sink", Value: 1}})
	if err != nil {
		return nil, fault("look for parked deliveries", err)
	}
	var found []struct {
		ID    string `bson:"message_id"`
		Table string `bson:"source_table"`
		Sink  string `bson:"sink"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, fault("look for parked deliveries", err)
	}
	var at [][]string
	for _, f := range found {
		i, ok := places[store.MessageKey{Table: f.Table, ID: f.ID}]
		if !ok {
			continue
		}
		if at == nil {
			at = make([][]string, len(ms))
		}
		at[i] = append(at[i], f.Sink)
	}
	return at, nil
}
