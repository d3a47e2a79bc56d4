package store

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
)

// read reads documents of a table as messages, by id; where limits them. They come in the order in which they are swept.
// Position and time of the commit are not set.
func (ts userTables) read(ctx context.Context, t *outbox.Table, ids []string, where bson.D) ([]*outbox.Message, error) {
	found, err := ts.readPlaced(ctx, t, ids, where, nil)
	ms := make([]*outbox.Message, len(found))
	for i := range found {
		ms[i] = found[i].m
	}
	return ms, err
}

// readUpTo is read up to the document that makes them so many bytes. Order and sizes of the documents are found out first, so that the
// others are not read.
func (ts userTables) readUpTo(ctx context.Context, t *outbox.Table, ids []string, where bson.D, bytes int) ([]*outbox.Message, error) {
	rows, err := ts.readPlaced(ctx, t, ids, where, placeFields(t))
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(rows)) // an id that is not unique is asked for once
	rows = slices.DeleteFunc(rows, func(p placed) bool {
		again := seen[p.m.ID]
		seen[p.m.ID] = true
		return again
	})
	var ms []*outbox.Message
	for len(rows) > 0 && bytes > 0 {
		var ids []string
		for size := 0; len(ids) < len(rows) && size < bytes; {
			p := &rows[len(ids)]
			ids, size = append(ids, p.m.ID), size+p.bytes
		}
		some, err := ts.read(ctx, t, ids, where)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			bytes -= m.Size()
		}
		ms, rows = append(ms, some...), rows[len(ids):]
	}
	return ms, nil
}

// sizeField is a document's size in bytes, where placeFields are asked for.
const sizeField = "tailbox_size"

// placeFields are the fields that tell a document's id, place and size.
func placeFields(t *outbox.Table) bson.D {
	return append(catalog.SweepOrder(t), bson.E{Key: t.Columns.ID, Value: 1}, bson.E{Key: sizeField, Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}})
}

// A placed is a message and its place among others of its table.
type placed struct {
	m           *outbox.Message
	seq, record int64
	bytes       int // about Size of the whole message, where placeFields were asked for
}

// readPlaced reads documents, or some of their fields, in the order in which they are swept.
func (ts userTables) readPlaced(ctx context.Context, t *outbox.Table, ids []string, where, fields bson.D) ([]placed, error) {
	var values bson.A
	for _, id := range ids {
		values = document.AppendIDs(values, 0, id)
	}
	filter := append(bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: values}}}}, where...)
	how := options.Find().SetShowRecordID(true)
	if fields != nil {
		how.SetProjection(fields)
	}
	cur, err := ts.collection(t).Find(ctx, filter, how)
	if err != nil {
		return nil, conn.Fault("read documents of "+t.String(), err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	plan := document.NewPlan(t)
	dec := document.Decoder{MaxMessage: ts.cfg.MaxMessage}
	var found []placed
	for cur.Next(ctx) {
		p := placed{m: dec.NewMessage()}
		if err := dec.Decode(plan, cur.Current, p.m); err != nil {
			return nil, err
		}
		p.m.Txn = 0
		p.record, _ = cur.Current.Lookup("$recordId").AsInt64OK()
		if t.Columns.Seq != "" {
			p.seq, _ = cur.Current.Lookup(t.Columns.Seq).AsInt64OK()
		}
		if size, ok := cur.Current.Lookup(sizeField).AsInt64OK(); ok && fields != nil {
			p.bytes = int(size) + p.m.Size()
		}
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), a.m.CreatedAt.Compare(b.m.CreatedAt), cmp.Compare(a.record, b.record))
	})
	return found, conn.Fault("read documents of "+t.String(), cur.Err())
}
