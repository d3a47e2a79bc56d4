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

// complete is sqlstore.Complete.
func (s *store) complete(ctx context.Context, ps []checkpoint.Parked, lane bool) (out []checkpoint.Parked, cut bool, err error) {
	return sqlstore.Complete(ctx, ps, lane, func(ctx context.Context, table, id string) ([]*outbox.Message, error) {
		t := s.table(table)
		if t == nil {
			return nil, nil
		}
		return s.readRows(ctx, t, []string{id}, nil)
	})
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
