package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// oplogFollower reads the oplog itself, not a change stream, as far as a majority has it.
type oplogFollower struct {
	*Truth
	db   *mongoDB
	last bson.Timestamp // of what was read
	read atomic.Uint64  // the same
}

// An oplogEntry is an operation, or the list of them that a transaction is.
type oplogEntry struct {
	TS     bson.Timestamp `bson:"ts"`
	Op     string         `bson:"op"`
	NS     string         `bson:"ns"`
	Object bson.Raw       `bson:"o"`
}

func (m *mongoDB) follower(t *Truth) follower {
	return &oplogFollower{Truth: t, db: m, last: m.begins}
}

func (f *oplogFollower) goal() (uint64, error) {
	at, err := f.db.note(context.Background())
	return clock(at), err
}

// clock is a cluster time as positions of messages have it.
func clock(t bson.Timestamp) uint64 { return uint64(t.T)<<32 | uint64(t.I) }

func (f *oplogFollower) reached(goal uint64) bool { return f.read.Load() >= goal }

func (f *oplogFollower) follow(ctx context.Context) error {
	for {
		if err := f.readOn(ctx); err != nil {
			return err
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// readOn reads what there is. Notes tell how far that is.
func (f *oplogFollower) readOn(ctx context.Context) error {
	tables := bson.A{f.db.DB + ".outbox", f.db.DB + ".events"}
	cur, err := f.db.client.Database("local").Collection("oplog.rs").Find(ctx, bson.D{
		{Key: "ts", Value: bson.D{{Key: "$gt", Value: f.last}}},
		{Key: "$or", Value: bson.A{
			bson.D{{Key: "op", Value: "i"}, {Key: "ns", Value: bson.D{{Key: "$in", Value: tables}}}},
			bson.D{{Key: "op", Value: "c"}, {Key: "o.applyOps.ns", Value: bson.D{{Key: "$in", Value: tables}}}},
			bson.D{{Key: "op", Value: "n"}},
		}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = cur.Close(context.WithoutCancel(ctx)) }() // it was read from alone
	for cur.Next(ctx) {
		var e oplogEntry
		if err := cur.Decode(&e); err != nil {
			return err
		}
		if err := f.take(&e); err != nil {
			return err
		}
		f.last = e.TS
		f.read.Store(clock(e.TS))
	}
	return cur.Err()
}

// take takes an entry.
func (f *oplogFollower) take(e *oplogEntry) error {
	ops := []oplogEntry{*e}
	switch e.Op {
	case "n":
		return nil
	case "c":
		var list struct {
			Ops     []oplogEntry `bson:"applyOps"`
			Partial bool         `bson:"partialTxn"`
			Prepare bool         `bson:"prepare"`
		}
		if err := bson.Unmarshal(e.Object, &list); err != nil {
			return err
		}
		if list.Partial || list.Prepare {
			return errors.New("read oplog: a transaction of the load is in several entries")
		}
		ops = list.Ops
	}
	var rows []row
	for _, op := range ops {
		if op.Op != "i" || op.NS != f.db.DB+".outbox" && op.NS != f.db.DB+".events" {
			continue
		}
		var d struct {
			ID    int64  `bson:"_id"`
			Type  string `bson:"aggregatetype"`
			Key   string `bson:"aggregateid"`
			Group string `bson:"message_group"`
		}
		if err := bson.Unmarshal(op.Object, &d); err != nil {
			return fmt.Errorf("read oplog: %w", err)
		}
		if op.NS == f.db.DB+".outbox" {
			d.Group = d.Type + ":" + d.Key
		}
		rows = append(rows, row{id: d.ID, group: d.Group, n: int32(len(rows))})
	}
	if len(rows) > 0 {
		f.commit(clock(e.TS), rows)
	}
	return nil
}
