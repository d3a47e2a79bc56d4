package store

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/store"
)

var _ checkpoint.Cleaner = (*Store)(nil)

// Clean removes delivered documents whose retention is over, in windows by id, each in a transaction that proves the lease. What
// is old is judged by the document's own fields, in the command that removes it; one that another transaction has changed is left
// until the next time.
func (s *Store) Clean(ctx context.Context, cursor string) (removed int, next string, err error) {
	ctx, cancel, err := s.limited(ctx)
	if err != nil {
		return 0, "", err
	}
	defer cancel()
	by := cleaner{s.tables, s.parked, s.lease}
	var ids []pendingID // of what Window found
	c := store.Cleaning{
		Window: func(at *store.Cursor) (old []string, seen int, err error) {
			if ids, seen, err = by.cleanWindow(ctx, s.tables.named(at.Table), at); err != nil {
				return nil, 0, err
			}
			for i := range ids {
				old = append(old, ids[i].text)
			}
			return old, seen, nil
		},
		Remove: func(table string, old []string) (int, error) {
			return by.removeOld(ctx, s.tables.named(table), ids, old)
		},
		Fault: conn.Fault,
	}
	return c.Do(s.tables.configured(), cursor)
}

// A cleaner removes old documents of which nothing is parked, under the lease.
type cleaner struct {
	tables userTables
	parked parkedCollection
	lease  *lease.Session
}

// cleanWindow looks at the next documents, and returns the ids of those that are old. The cursor moves on.
func (c cleaner) cleanWindow(ctx context.Context, t *outbox.Table, at *store.Cursor) (old []pendingID, seen int, err error) {
	where := behindCursor(bson.D{}, t, at)
	cur, err := c.tables.collection(t).Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: where}}, bson.D{{Key: "$sort", Value: bson.D{{Key: t.Columns.ID, Value: 1}}}}, bson.D{{Key: "$limit", Value: store.CleanWindow}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "id", Value: "$" + t.Columns.ID}, {Key: "old", Value: oldExpr(t)}}}},
	}, options.Aggregate())
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	dec := document.Decoder{}
	for cur.Next(ctx) {
		seen++
		v := document.Field(cur.Current, "id")
		id := pendingID{raw: windowEnd(v)}
		at.After = id.after()
		isOld, _ := cur.Current.Lookup("old").BooleanOK()
		if text, err := dec.IDText(v); err == nil && isOld && len(text) > 0 {
			id.text = string(text)
			old = append(old, id)
		}
	}
	return old, seen, cur.Err()
}

// oldExpr tells of a document whether it was delivered longer ago than the table's retention.
func oldExpr(t *outbox.Table) bson.D {
	at := "$" + t.Columns.DeliveredAt
	all := bson.A{
		bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: at}}, "date"}}},
		bson.D{{Key: "$lt", Value: bson.A{at, bson.D{{Key: "$subtract", Value: bson.A{"$$NOW", t.Retention.Milliseconds()}}}}}},
	}
	if t.Columns.Status != "" {
		all = append(all, bson.D{{Key: "$eq", Value: bson.A{"$" + t.Columns.Status, document.Literal(t.Words.Value(t.Words.Delivered))}}})
	}
	if len(t.Tenants) > 0 {
		all = append(all, bson.D{{Key: "$in", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$" + t.Columns.Tenant, ""}}}, document.Literal(catalog.TenantValues(t))}}})
	}
	return bson.D{{Key: "$and", Value: all}}
}

// removeOld removes documents of which nothing is parked.
func (c cleaner) removeOld(ctx context.Context, t *outbox.Table, old []pendingID, texts []string) (removed int, err error) {
	views, err := c.parked.bareOf(ctx, texts)
	if err != nil {
		return 0, err
	}
	parked := make(map[string]bool)
	for _, v := range views {
		if v.Content.Table == t.String() {
			parked[v.ID] = true
		}
	}
	ids := make(bson.A, 0, len(old))
	for _, o := range old {
		if !parked[o.text] {
			ids = append(ids, o.raw)
		}
	}
	tries := cleanTries
	return c.removeFree(ctx, t, ids, &tries)
}

// cleanTries bounds the transactions of one step: halves are tried where documents are locked.
const cleanTries = 40

// removeFree removes documents in one transaction, or in parts where another transaction has changed some of them, which stay.
func (c cleaner) removeFree(ctx context.Context, t *outbox.Table, ids bson.A, tries *int) (removed int, err error) {
	if *tries--; len(ids) == 0 || *tries < 0 {
		return 0, nil
	}
	removed, met, err := c.remove(ctx, t, ids)
	if err != nil || !met || len(ids) == 1 {
		return removed, err
	}
	for _, half := range []bson.A{ids[:len(ids)/2], ids[len(ids)/2:]} {
		n, err := c.removeFree(ctx, t, half, tries)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove removes documents in one transaction. Met: it met another one, and nothing was done.
func (c cleaner) remove(ctx context.Context, t *outbox.Table, ids bson.A) (removed int, met bool, err error) {
	sent := time.Now()
	if err := c.lease.Begin(0); err != nil {
		return 0, false, err
	}
	res, err := c.tables.collection(t).DeleteMany(ctx, bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "$expr", Value: oldExpr(t)}})
	err = conn.RowFault(t, err)
	if err == nil {
		err = c.lease.Prove(ctx, nil)
	}
	if err == nil {
		err = c.lease.Commit(ctx)
	}
	if err == nil {
		c.lease.Proved(sent)
		return int(res.DeletedCount), false, nil
	}
	if c.lease.Running() {
		if aerr := c.lease.Abort(ctx); aerr != nil {
			return 0, false, errors.Join(err, aerr)
		}
	}
	if conn.HasLabel(err, conn.TransientLabel) {
		return 0, true, nil
	}
	return 0, false, err
}
