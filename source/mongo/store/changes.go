package store

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// parkChunk and parkChunkBytes bound one insert into tailbox_parked.
	parkChunk      = 1000
	parkChunkBytes = 16 << 20
)

// writes are what is to be written to tailbox_parked.
type writes struct {
	remove  []bson.ObjectID
	updates []mongo.WriteModel
}

// set changes fields of a document; unset takes others away.
func (w *writes) set(id any, set bson.D, unset ...string) {
	var update bson.D
	if len(set) > 0 {
		update = append(update, bson.E{Key: "$set", Value: set})
	}
	if len(unset) > 0 {
		var names bson.D
		for _, name := range unset {
			names = append(names, bson.E{Key: name, Value: ""})
		}
		update = append(update, bson.E{Key: "$unset", Value: names})
	}
	w.updates = append(w.updates, mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: id}}).SetUpdate(update))
}

// flush writes what was gathered.
func (a *attempt) flush(ctx context.Context) error {
	w := a.writes
	a.writes = writes{}
	if len(w.updates) > 0 {
		if _, err := a.s.parked.BulkWrite(ctx, w.updates, options.BulkWrite().SetOrdered(true)); err != nil {
			return err
		}
	}
	if len(w.remove) > 0 {
		if _, err := a.s.parked.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: w.remove}}}}); err != nil {
			return err
		}
	}
	return nil
}

// park inserts deliveries. One that is parked already (the log is read again after a crash) stays as it is: its attempts, and
// that it is dead, must not be forgotten.
func (a *attempt) park(ctx context.Context) error {
	settling := a.Settling()
	var docs []any
	bytes := 0
	for i := range a.parks {
		p := &a.parks[i]
		a.s.Sinks[p.Sink] = true
		if !store.Alone(p) {
			a.Lanes.Touched.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
		m := a.known(store.MessageKey{Table: p.Message.Table, ID: p.RowID()})
		if m.at(p.Sink) != nil {
			continue
		}
		d := delivery.New(a.s.cfg.Pipeline, p, a.now, settling[store.MessageKey{Table: p.Message.Table, ID: store.TableID(p)}])
		if due := a.now.Add(p.NextAttempt); store.Timed(p.Due, p.State) {
			if d.Blocks {
				a.Lanes.Want(d.Key(), p.NextAttempt)
			} else {
				d.Next = due
			}
		}
		m.views = append(m.views, d)
		docs = append(docs, d)
		bytes += p.Message.Size()
		if len(docs) == parkChunk || bytes > parkChunkBytes {
			if err := a.insert(ctx, docs); err != nil {
				return err
			}
			docs, bytes = nil, 0
		}
	}
	return a.insert(ctx, docs)
}

func (a *attempt) insert(ctx context.Context, docs []any) error {
	if len(docs) == 0 {
		return nil
	}
	_, err := a.s.parked.InsertMany(ctx, docs)
	return err
}

// applyChanges alters deliveries. Of several changes for one delivery the last one counts.
func (a *attempt) applyChanges() {
	for _, c := range store.LastChanges(a.In.Changes) {
		m := a.message(store.KeyOfMessage(c.Key))
		v := m.at(c.Key.Sink)
		a.Change(c, v != nil && v.Alone)
		switch {
		case v == nil:
		case c.Delivered:
			a.delivered(m, v)
		default:
			a.alter(v, c)
		}
	}
}

// delivered takes a delivery out of its lane. If the message's document is locked, the delivery stays, to remember that it
// has still to be dealt with.
func (a *attempt) delivered(m *settled, v *delivery.Document) {
	m.attempts = max(m.attempts, v.Attempts+1)
	m.settled = m.settled || v.RowSettled
	a.Lanes.Forget(v.Key())
	if a.locked[m.key] {
		v.State, v.Blocks, v.Next, v.Attempts = checkpoint.StateDelivered, false, time.Time{}, v.Attempts+1
		a.writes.set(v.OID, bson.D{{Key: "state", Value: v.State}, {Key: "blocks", Value: false}, {Key: "attempts", Value: v.Attempts},
			{Key: "changed_at", Value: a.now}}, "next_attempt_at")
		return
	}
	m.remove(v)
	a.writes.remove = append(a.writes.remove, v.OID)
}

// alter gives a delivery its new state. One that an operator dropped while an attempt of it was under way stays dropped.
func (a *attempt) alter(v *delivery.Document, c *checkpoint.Change) {
	if v.State == checkpoint.StateDropped {
		return
	}
	v.State, v.Blocks, v.Attempts = c.State, c.Blocks && !v.Alone, c.Attempts
	v.LastError, v.ErrorClass, v.Next = store.ErrorText(c.LastError), c.ErrorClass, time.Time{}
	var unset []string
	switch {
	case c.Tries == 0:
		v.TriedAt = time.Time{}
		unset = append(unset, "tried_at")
	case c.Tries != v.Tries:
		v.TriedAt = a.now
	}
	v.Tries, v.Failed = c.Tries, c.Failed
	set := bson.D{{Key: "state", Value: v.State}, {Key: "blocks", Value: v.Blocks}, {Key: "attempts", Value: v.Attempts},
		{Key: "tries", Value: v.Tries}, {Key: "failed_epoch", Value: v.Failed.Epoch}, {Key: "failed_call", Value: v.Failed.Call},
		{Key: "last_error", Value: v.LastError}, {Key: "error_class", Value: v.ErrorClass}, {Key: "changed_at", Value: a.now}}
	if !v.TriedAt.IsZero() {
		set = append(set, bson.E{Key: "tried_at", Value: v.TriedAt})
	}
	a.Lanes.Forget(v.Key())
	due := a.now.Add(c.NextAttempt)
	switch {
	case !store.Timed(c.Due, c.State):
	case v.Blocks:
		a.Lanes.Want(v.Key(), c.NextAttempt)
	default:
		v.Next = due
	}
	if !v.Next.IsZero() {
		set = append(set, bson.E{Key: "next_attempt_at", Value: due})
	} else {
		unset = append(unset, "next_attempt_at")
	}
	a.writes.set(v.OID, set, unset...)
}

// supersede makes all but the newest of a lane's blocking deliveries dead.
func (a *attempt) supersede(ctx context.Context) error {
	lanes := store.Superseding(store.LastChanges(a.In.Changes))
	if len(lanes.Order) == 0 {
		return a.flush(ctx)
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	for _, lane := range lanes.Order {
		inLane := a.s.parked.ours(bson.E{Key: "blocks", Value: true}, bson.E{Key: "sink", Value: lane.Sink}, bson.E{Key: "message_group", Value: lane.Group})
		var newest delivery.Document
		err := a.s.parked.FindOne(ctx, inLane, options.FindOne().SetProjection(delivery.BareFields()).
			SetSort(bson.D{{Key: "position", Value: -1}})).Decode(&newest)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			continue
		case err != nil:
			return err
		}
		older := append(inLane, bson.E{Key: "position", Value: bson.D{{Key: "$lt", Value: newest.Position}}})
		keys, err := a.s.parked.messageKeys(ctx, older, 0)
		if err != nil {
			return err
		}
		if _, err := a.s.parked.UpdateMany(ctx, older, bson.D{
			{Key: "$set", Value: bson.D{{Key: "state", Value: checkpoint.StateDead}, {Key: "blocks", Value: false}, {Key: "error_class", Value: "superseded"},
				{Key: "last_error", Value: "superseded by a later message of its group"}, {Key: "changed_at", Value: a.now}}},
			{Key: "$unset", Value: bson.D{{Key: "next_attempt_at", Value: ""}}}}); err != nil {
			return err
		}
		for _, key := range keys {
			a.Superseded = append(a.Superseded, checkpoint.Key{Sink: lane.Sink, Table: key.Table, ID: key.ID})
			a.message(key).stale = true
		}
	}
	return a.readViews(ctx)
}
