package mongo

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// completeBytes bounds what complete reads into memory.
const completeBytes = 16 << 20

// complete reads the messages that are not all copied again from the user's table. What the table says now decides
// whether they can be delivered: max_message may have been raised, a column mended. Group and position stay. Once more than
// completeBytes were read, further ones are left out, and, where ps is a part of a lane, all that follows: cut says so.
func (s *store) complete(ctx context.Context, ps []checkpoint.Parked, lane bool) (out []checkpoint.Parked, cut bool, err error) {
	bytes := 0
	out = ps[:0]
	for _, p := range ps {
		if !p.InTable || outbox.IsStandInID(p.RowID()) {
			out = append(out, p)
			continue
		}
		if bytes > completeBytes {
			if cut = true; lane {
				return out, cut, nil
			}
			continue
		}
		var found []*outbox.Message
		if t := s.table(p.Message.Table); t != nil {
			if found, err = s.readRows(ctx, t, []string{p.RowID()}, nil); err != nil {
				return nil, false, err
			}
		}
		var fresh *outbox.Message
		if len(found) > 0 {
			fresh = found[0]
			bytes += len(fresh.Payload)
		}
		sqlstore.CompleteFrom(&p, fresh)
		out = append(out, p)
	}
	return out, cut, nil
}

// readRows reads documents of a table as messages, by id; where limits them. They come in the order in which they are swept.
// Position and time of the commit are not set.
func (s *store) readRows(ctx context.Context, t *outbox.Table, ids []string, where bson.D) ([]*outbox.Message, error) {
	var values bson.A
	for _, id := range ids {
		values = appendIDs(values, 0, id)
	}
	filter := append(bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: values}}}}, where...)
	cur, err := s.collection(t).Find(ctx, filter, options.Find().SetShowRecordID(true))
	if err != nil {
		return nil, fault("read documents of "+t.String(), err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	plan := newPlan(t)
	dec := decoder{maxMessage: s.cfg.MaxMessage}
	var found []placed
	for cur.Next(ctx) {
		p := placed{m: dec.NewMessage()}
		if err := dec.decode(plan, cur.Current, p.m); err != nil {
			return nil, err
		}
		p.m.Txn = 0
		p.record, _ = cur.Current.Lookup("$recordId").AsInt64OK()
		if t.Columns.Seq != "" {
			p.seq, _ = cur.Current.Lookup(t.Columns.Seq).AsInt64OK()
		}
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), a.m.CreatedAt.Compare(b.m.CreatedAt), cmp.Compare(a.record, b.record))
	})
	ms := make([]*outbox.Message, len(found))
	for i := range found {
		ms[i] = found[i].m
	}
	return ms, fault("read documents of "+t.String(), cur.Err())
}

// A placed is a message and its place among others of its table.
type placed struct {
	m           *outbox.Message
	seq, record int64
}
