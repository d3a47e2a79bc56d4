package stream

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
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// parkedAtOnce is how many swept documents are looked up among the parked deliveries at a time.
const parkedAtOnce = 500

// Pending implements source.Snapshot. Tables come in their configured order. The documents of one are ordered by the sequence
// column, then by created_at, and then as they lie in the collection, which is as they were inserted: MongoDB does not keep
// the time of a document's commit.
func (s *snapshot) Pending(ctx context.Context, log uint32, emit source.Emit) error {
	h, err := conn.Greet(ctx, s.client)
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
	case conn.HasCode(err, conn.CodeSnapshotTooOld) && sw.table.OnDelivered == outbox.Keep:
		return fmt.Errorf("%w: sweep collection %s: it took longer than the server keeps a snapshot, and would take as long again, with all that was sent already: "+
			"let each member of the replica set keep snapshots for longer than the sweep takes, such as a day: "+
			"db.adminCommand({setParameter: 1, minSnapshotHistoryWindowInSeconds: 86400}): %w", source.ErrStop, sw.table, err)
	case conn.HasCode(err, conn.CodeSnapshotTooOld, conn.CodeSnapshotUnavail):
		return fmt.Errorf("sweep collection %s: it took longer than the server keeps a snapshot (minSnapshotHistoryWindowInSeconds); "+
			"this is progress: tailbox now sweeps only what is still pending; to let one sweep reach its end, run on each member of the replica set "+
			"db.adminCommand({setParameter: 1, minSnapshotHistoryWindowInSeconds: 86400}): %w", sw.table, err)
	}
	return err
}

// pendingOf emits the documents of one table, as they come from the server.
func (s *snapshot) pendingOf(ctx context.Context, sw sweep, p *store.Sweep) (err error) {
	doing := "read pending documents of " + sw.table.String()
	further := []bson.E{{Key: "hint", Value: bson.D{{Key: "$natural", Value: 1}}}, {Key: "batchSize", Value: parkedAtOnce}}
	if order := catalog.SweepOrder(sw.table); order != nil {
		further = append(further, bson.E{Key: "sort", Value: order}, bson.E{Key: "allowDiskUse", Value: true})
	}
	cur, err := s.find(ctx, sw.table.Schema, sw.table.Name, sw.where, further...)
	if err != nil {
		return conn.Fault(doing, err)
	}
	defer func() { _ = cur.Close(ctx) }() // at the end the server has closed it
	cur.SetBatchSize(parkedAtOnce)
	plan := document.NewPlan(sw.table)
	dec := document.Decoder{MaxMessage: s.cfg.MaxMessage}
	var ms []*outbox.Message
	bytes := 0
	for cur.Next(ctx) {
		m := dec.NewMessage()
		if err := dec.Decode(plan, cur.Current, m); err != nil {
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
		return conn.Fault(doing, err)
	}
	return s.emitPending(ctx, ms, p)
}

// recordName is the text of a document's _id, or a hash of it: another name of the document, which does not change.
func recordName(doc bson.Raw) string {
	text, err := document.Field(doc, "_id").JSON()
	if err != nil || len(text) > outbox.MaxIndexed/2 {
		sum := sha256.Sum256(append(text, doc.Lookup("_id").Value...))
		return hex.EncodeToString(sum[:])
	}
	return string(text)
}

func (s *snapshot) emitPending(ctx context.Context, ms []*outbox.Message, p *store.Sweep) error {
	if len(ms) == 0 {
		return nil
	}
	// Of the same time: what the poller delivers meanwhile is parked in it, and left out.
	at, err := delivery.Sinks(ctx, s.cfg.Pipeline, ms, func(where, fields bson.D) (*mongo.Cursor, error) {
		return s.find(ctx, s.cfg.Schema, catalog.Parked, where, bson.E{Key: "projection", Value: fields}, bson.E{Key: "hint", Value: catalog.MessageIndex})
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
