package store

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// rowChunk is the most documents of one command.
const rowChunk = 5000

// A rowChange is what is to happen to one document of the user's table.
type rowChange struct {
	id    string
	kind  document.IDKind
	index int // in Settlement.Rows; -1 for a message whose row was settled before
	msg   *settled
	store.RowChange
}

// rowWork is one command for documents of one table.
type rowWork struct {
	table  *outbox.Table
	delete bool
	// alike: all documents get the same, so that a list of ids is all that travels. That is the common case and the fast one.
	alike bool
	rows  []rowChange
}

// plainRows deals with the documents of messages of which nothing is parked, table by table.
func (a *attempt) plainRows(ctx context.Context) error {
	byTable := make(map[string][]rowChange, len(a.s.cfg.Tables))
	for i := range a.In.Rows {
		r := &a.In.Rows[i]
		t := a.s.tables.named(r.Table)
		if t == nil || r.Parked || outbox.IsStandInID(r.ID) {
			continue // a table that left the configuration is left alone, and a document without an id cannot be found
		}
		c := rowChange{id: r.ID, kind: document.IDKind(r.Txn), index: i, RowChange: store.RowChange{Attempts: 1}}
		view := store.ViewOf(t)
		if view.Receipts {
			c.Receipt = r.Receipt
		}
		if _, touch := view.Delivered(&c.RowChange, false); touch {
			byTable[r.Table] = append(byTable[r.Table], c)
		}
	}
	for i := range a.s.cfg.Tables {
		t := &a.s.cfg.Tables[i]
		if err := a.rowsOf(ctx, t, t.OnDelivered == outbox.Delete, t.Columns.Receipt == "", byTable[t.String()]); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf carries out what is to happen to documents of one table, but for those that are locked.
func (a *attempt) rowsOf(ctx context.Context, t *outbox.Table, del, alike bool, rows []rowChange) error {
	free := rows
	if len(a.locked) > 0 {
		free = nil
		for _, r := range rows {
			switch {
			case !a.locked[store.MessageKey{Table: t.String(), ID: r.id}]:
				free = append(free, r)
			case r.index < 0:
				r.msg.locked = true
			default:
				a.Skipped[r.index] = true
			}
		}
	}
	for part := range slices.Chunk(free, rowChunk) {
		w := &rowWork{table: t, delete: del, alike: alike || del, rows: part}
		a.work = append(a.work, w)
		found, err := w.do(ctx, a.s.tables.collection(t))
		if err != nil {
			return err
		}
		a.countGone(w, found)
	}
	return nil
}

// countGone counts documents that were not there. The transaction sees all that the change stream has shown, so the
// application removed them.
func (a *attempt) countGone(w *rowWork, found int) {
	settling := 0
	for i := range w.rows {
		if w.rows[i].index >= 0 {
			settling++
		}
	}
	a.Out.Gone += min(max(len(w.rows)-found, 0), settling)
}

// do sends the command, and returns how many documents there were.
func (w *rowWork) do(ctx context.Context, coll *mongo.Collection) (found int, err error) {
	found, err = w.send(ctx, coll)
	return found, conn.RowFault(w.table, err)
}

func (w *rowWork) send(ctx context.Context, coll *mongo.Collection) (found int, err error) {
	if w.alike {
		filter := w.filter(w.rows)
		if w.delete {
			res, err := coll.DeleteMany(ctx, filter)
			if err != nil {
				return 0, err
			}
			return int(res.DeletedCount), nil
		}
		res, err := coll.UpdateMany(ctx, filter, assignments(w.table, &w.rows[0]))
		if err != nil {
			return 0, err
		}
		return int(res.MatchedCount), nil
	}
	models := make([]mongo.WriteModel, len(w.rows))
	for i := range w.rows {
		models[i] = mongo.NewUpdateManyModel().SetFilter(w.filter(w.rows[i : i+1])).SetUpdate(assignments(w.table, &w.rows[i]))
	}
	res, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
	if err != nil {
		return 0, err
	}
	return int(res.MatchedCount), nil
}

// filter finds documents by id.
func (w *rowWork) filter(rows []rowChange) bson.D {
	ids := make(bson.A, 0, len(rows))
	for i := range rows {
		ids = document.AppendIDs(ids, rows[i].kind, rows[i].id)
	}
	return bson.D{{Key: w.table.Columns.ID, Value: bson.D{{Key: "$in", Value: ids}}}}
}

// assignments set the columns that the table has. All times are the server's.
func assignments(t *outbox.Table, r *rowChange) bson.A {
	var set bson.D
	add := func(column string, v any) {
		if column != "" {
			set = append(set, bson.E{Key: column, Value: v})
		}
	}
	c := &t.Columns
	if r.Receipt != "" {
		held := bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$" + c.Receipt}}, "string"}}},
			"$" + c.Receipt, ""}}}
		add(c.Receipt, bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$eq", Value: bson.A{held, ""}}}, document.Literal(r.Receipt),
			bson.D{{Key: "$concat", Value: bson.A{held, "\n", document.Literal(r.Receipt)}}}}}})
	}
	if t.OnDelivered == outbox.Keep {
		return bson.A{bson.D{{Key: "$set", Value: set}}}
	}
	if word := t.Words.Word(r.State); word != nil {
		add(c.Status, document.Literal(t.Words.Value(*word)))
	}
	more := bson.A{} // whether one more attempt was spent
	for _, count := range []struct {
		column string
		n      int
	}{{c.Failures, r.Failures}, {c.Attempts, r.Attempts}} {
		if count.column == "" {
			continue
		}
		before := bson.D{{Key: "$ifNull", Value: bson.A{"$" + count.column, 0}}}
		if r.Delivered {
			add(count.column, bson.D{{Key: "$max", Value: bson.A{before, count.n}}})
			continue
		}
		add(count.column, count.n)
		more = append(more, bson.D{{Key: "$gt", Value: bson.A{count.n, before}}})
	}
	switch {
	case r.Delivered:
		add(c.LastAttemptAt, "$$NOW")
		add(c.DeliveredAt, "$$NOW")
	case len(more) > 0 && c.LastAttemptAt != "":
		add(c.LastAttemptAt, bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$or", Value: more}}, "$$NOW",
			bson.D{{Key: "$ifNull", Value: bson.A{"$" + c.LastAttemptAt, nil}}}}}})
	}
	add(c.UpdatedAt, "$$NOW")
	add(c.NextAttemptAt, shown(r.Next))
	if r.Err != "" {
		add(c.LastError, document.Literal(r.Err))
	} else {
		add(c.LastError, nil)
	}
	for _, v := range t.SetFor(r.State) {
		if v.Now {
			add(v.Column, "$$NOW")
		} else {
			add(v.Column, document.Literal(catalog.SetValue(&v)))
		}
	}
	return bson.A{bson.D{{Key: "$set", Value: set}}}
}

// lockAll adds all messages with documents to change.
func lockAll(works []*rowWork, locked map[store.MessageKey]bool) {
	for _, w := range works {
		for i := range w.rows {
			locked[store.MessageKey{Table: w.table.String(), ID: w.rows[i].id}] = true
		}
	}
}

// findLocked adds the messages whose documents a transaction of others has changed. It tries all of them in transactions that are
// never committed, and halves what meets another transaction.
func (s *Store) findLocked(ctx context.Context, works []*rowWork, locked map[store.MessageKey]bool) error {
	for _, w := range works {
		if err := s.probe(ctx, w, w.rows, locked); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) probe(ctx context.Context, w *rowWork, rows []rowChange, locked map[store.MessageKey]bool) error {
	if len(rows) == 0 {
		return nil
	}
	if err := s.lease.Begin(0); err != nil {
		return err
	}
	part := &rowWork{table: w.table, delete: w.delete, alike: w.alike, rows: rows}
	_, err := part.do(ctx, s.tables.collection(w.table))
	if aerr := s.lease.Abort(ctx); aerr != nil {
		return aerr
	}
	switch {
	case err == nil:
		return nil
	case !conn.HasLabel(err, conn.TransientLabel) || !conn.HasCode(err, conn.CodeWriteConflict, conn.CodeLockTimeout):
		return err
	case len(rows) == 1:
		locked[store.MessageKey{Table: w.table.String(), ID: rows[0].id}] = true
		return nil
	}
	if err := s.probe(ctx, w, rows[:len(rows)/2], locked); err != nil {
		return err
	}
	return s.probe(ctx, w, rows[len(rows)/2:], locked)
}
