package store

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
)

// effects implement store.Effects by commands in the transaction of an attempt. The Ref of a selected row is the _id of its
// document.
type effects struct{ *attempt }

func (e effects) Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error {
	return e.s.requests.noteResult(ctx, id, result, done)
}

func (e effects) InForce(ctx context.Context) (store.Forces, error) { return e.s.requests.inForce(ctx) }

func (e effects) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	return e.s.requests.saveForce(ctx, id, f)
}

func (e effects) Scope() (*store.Attempt, *store.Memory) { return &e.Attempt, &e.s.Memory }
func (e effects) AddMessage(key store.MessageKey)        { e.message(key).stale = true }
func (e effects) RowWord() string                        { return "document" }

func (e effects) Unsupported(p *checkpoint.Parked) (why string) {
	if p.Message.Size() > delivery.MaxSize {
		return "the edited message is larger than a document may be"
	}
	return ""
}

// alter changes deliveries alike.
func (e effects) alter(ctx context.Context, ids []bson.ObjectID, update bson.D) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := e.s.parked.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, update)
	return err
}

// oids are the documents of deliveries.
func oids(rows []store.SelectedRow) []bson.ObjectID {
	ids := make([]bson.ObjectID, len(rows))
	for i := range rows {
		ids[i], _ = rows[i].Ref.(bson.ObjectID)
	}
	return ids
}

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	if len(rows) == 0 {
		return nil
	}
	for _, isAlone := range []bool{true, false} {
		some := slices.DeleteFunc(slices.Clone(rows), func(r store.SelectedRow) bool { return r.Alone != isAlone })
		set := bson.D{{Key: "state", Value: checkpoint.StateWaiting}, {Key: "blocks", Value: !isAlone}, {Key: "attempts", Value: 0}, {Key: "tries", Value: 0},
			{Key: "failed_epoch", Value: int64(0)}, {Key: "failed_call", Value: int64(0)}, {Key: "changed_at", Value: e.now}}
		unset := bson.D{{Key: "last_error", Value: ""}, {Key: "error_class", Value: ""}, {Key: "tried_at", Value: ""}}
		if isAlone {
			set = append(set, bson.E{Key: "next_attempt_at", Value: e.now})
		} else {
			unset = append(unset, bson.E{Key: "next_attempt_at", Value: ""})
		}
		if err := e.alter(ctx, oids(some), bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: unset},
			{Key: "$inc", Value: bson.D{{Key: "replays", Value: 1}}}}); err != nil {
			return err
		}
	}
	return nil
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.alter(ctx, oids(rows), bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: checkpoint.StateDropped}, {Key: "blocks", Value: false},
		{Key: "error_class", Value: "dropped"}, {Key: "last_error", Value: why}, {Key: "changed_at", Value: e.now}}},
		{Key: "$unset", Value: bson.D{{Key: "next_attempt_at", Value: ""}}}})
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	retried := slices.DeleteFunc(slices.Clone(rows), func(r store.SelectedRow) bool { return r.State != checkpoint.StateRetrying })
	if err := e.alter(ctx, oids(retried), bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: checkpoint.StateDead}, {Key: "changed_at", Value: e.now}}},
		{Key: "$unset", Value: bson.D{{Key: "next_attempt_at", Value: ""}}}}); err != nil {
		return err
	}
	return e.alter(ctx, oids(rows), bson.D{{Key: "$set", Value: bson.D{{Key: "blocks", Value: false}}}})
}

func (e effects) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	return e.s.parked.heads(ctx, lanes)
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	docs, err := e.s.parked.documents(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: oids(rows)}}}})
	if err != nil {
		return nil, conn.Fault("read parked deliveries", err)
	}
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(docs))
	for _, d := range docs {
		parked, err := d.Delivery(e.now)
		if err != nil {
			return nil, err
		}
		out[d.ParkedKey()] = &parked
	}
	return out, nil
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for i := range e.s.cfg.Tables {
		t := &e.s.cfg.Tables[i]
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := e.s.tables.read(ctx, t, ids, catalog.Pending(t))
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}

func (e effects) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	for i := range changed {
		var was delivery.Document
		byID := bson.D{{Key: "_id", Value: changed[i].Row.Ref}}
		if err := e.s.parked.FindOne(ctx, byID).Decode(&was); err != nil {
			return err
		}
		was.Carry(changed[i].Parked)
		was.Fit(changed[i].Parked)
		if _, err := e.s.parked.ReplaceOne(ctx, byID, &was); err != nil {
			return err
		}
	}
	return nil
}
