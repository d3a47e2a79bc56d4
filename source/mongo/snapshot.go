package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A tableSnapshot is the state of the tables at a cluster time: all reads of one session with snapshot reads have the time
// of the first one, and reading the log begins right behind it. The server keeps such a state for
// minSnapshotHistoryWindowInSeconds, 5 minutes as a rule. A sweep that takes longer fails then; the next start sweeps what is still
// pending at a new position, but for a collection that is kept (sweep.broken).
type tableSnapshot struct {
	cfg    *Config
	client *mongo.Client
	at     opTime
	sweeps []sweep
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	table *outbox.Table
	where bson.D
}

var _ source.Snapshot = (*tableSnapshot)(nil)

// Establish implements source.Source. Nothing is made at the server: the oplog is there in any case.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	if s.err != nil {
		return nil, s.err
	}
	client, err := s.cfg.connect()
	if err != nil {
		return nil, err
	}
	snap := &tableSnapshot{cfg: &s.cfg, client: client}
	if err := snap.open(ctx); err != nil {
		return nil, errors.Join(err, disconnect(ctx, client))
	}
	s.cfg.Logger.Info("established a position in the log", "position", snap.at.String())
	return snap, nil
}

func (s *tableSnapshot) open(ctx context.Context) error {
	h, err := greet(ctx, s.client)
	if err != nil {
		return err
	}
	if err := h.usable(); err != nil {
		return err
	}
	if err := s.cfg.existing(ctx, s.client); err != nil {
		return err
	}
	now, err := clusterTime(ctx, s.client)
	if err != nil {
		return err
	}
	var reply struct {
		Cursor struct {
			At bson.Timestamp `bson:"atClusterTime"`
		} `bson:"cursor"`
	}
	t := &s.cfg.Tables[0]
	// afterClusterTime: what was committed before this call must be in the snapshot or behind it.
	err = s.client.Database(t.Schema).RunCommand(ctx, bson.D{{Key: "find", Value: t.Name}, {Key: "limit", Value: 1},
		{Key: "projection", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "singleBatch", Value: true},
		{Key: "readConcern", Value: bson.D{{Key: "level", Value: "snapshot"}, {Key: "afterClusterTime", Value: now.timestamp()}}},
	}).Decode(&reply)
	if err != nil {
		return fault("take a snapshot of "+t.String(), err)
	}
	if s.at = opTimeOf(reply.Cursor.At.T, reply.Cursor.At.I); s.at == 0 {
		return errors.New("take a snapshot: the server does not say of which time it is")
	}
	return nil
}

// Resume implements source.Snapshot.
func (s *tableSnapshot) Resume() source.Resume { return place{at: s.at}.resume() }

// Close implements source.Snapshot.
func (s *tableSnapshot) Close(ctx context.Context) error { return disconnect(ctx, s.client) }

// Judge implements source.Snapshot.
func (s *tableSnapshot) Judge(ctx context.Context, known source.Known) (bool, error) {
	s.sweeps = nil
	var unjudged []error
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		where, cure := s.cfg.pendingRows(t, known)
		if where == nil {
			continue
		}
		found, err := s.exists(ctx, t, where)
		switch {
		case err != nil:
			return false, err
		case found && cure != "" && !known.AcceptGap:
			unjudged = append(unjudged, fmt.Errorf("collection %s has documents and no status field: %s: %w", t, cure, source.ErrUnjudged))
		case found && cure == "":
			s.sweeps = append(s.sweeps, sweep{t, where})
		}
	}
	return len(s.sweeps) > 0, errors.Join(unjudged...)
}

func (s *tableSnapshot) exists(ctx context.Context, t *outbox.Table, where bson.D) (bool, error) {
	cur, err := s.find(ctx, t.Schema, t.Name, where, bson.E{Key: "limit", Value: 1}, bson.E{Key: "projection", Value: bson.D{{Key: "_id", Value: 1}}})
	if err != nil {
		return false, fault("look for pending documents in "+t.String(), err)
	}
	found := cur.Next(ctx)
	if err := errors.Join(cur.Err(), cur.Close(ctx)); err != nil {
		return false, fault("look for pending documents in "+t.String(), err)
	}
	return found, nil
}

// find reads a collection as it was at the snapshot's time.
func (s *tableSnapshot) find(ctx context.Context, database, name string, where bson.D, further ...bson.E) (*mongo.Cursor, error) {
	command := bson.D{{Key: "find", Value: name}, {Key: "filter", Value: where},
		{Key: "readConcern", Value: bson.D{{Key: "level", Value: "snapshot"}, {Key: "atClusterTime", Value: s.at.timestamp()}}}}
	return s.client.Database(database).RunCommandCursor(ctx, append(command, further...))
}

// pendingRows is the filter by which a table's documents are pending at a new position; nil = none is. With a cure, nothing
// tells: if there are such documents at all, an operator has to do what it says.
func (c *Config) pendingRows(t *outbox.Table, known source.Known) (where bson.D, cure string) {
	if where := pendingCondition(t); where != nil {
		return where, ""
	}
	sweep, cure := store.Unmarked(t, c.Start, known)
	if !sweep {
		return nil, ""
	}
	return bson.D{}, cure
}

// pendingCondition is the filter by which a table's own columns say that a document is pending, or nil where they do not:
// the status is the word for pending, or it is missing, as in documents from before there was one, and so is delivered_at; or without a status
// column, there is no delivered_at.
func pendingCondition(t *outbox.Table) bson.D {
	switch {
	case t.Columns.Status != "":
		var pending bson.A
		for _, word := range t.PendingWords() {
			pending = append(pending, t.Words.Value(word))
		}
		where := bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$in", Value: append(slices.Clone(pending), nil)}}}} // an index on the status serves both
		if t.Columns.DeliveredAt != "" {
			where = append(where, bson.E{Key: "$or", Value: bson.A{bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$in", Value: pending}}}}, bson.D{{Key: t.Columns.DeliveredAt, Value: nil}}}})
		}
		return append(where, oursCondition(t)...)
	case t.Columns.DeliveredAt != "":
		return append(bson.D{{Key: t.Columns.DeliveredAt, Value: nil}}, oursCondition(t)...)
	}
	return nil
}

// pendingOurs is the same, or where no column tells, the filter for all of this pipeline's documents.
func pendingOurs(t *outbox.Table) bson.D {
	if where := pendingCondition(t); where != nil {
		return where
	}
	return append(bson.D{}, oursCondition(t)...)
}

// oursCondition is the filter by which a document is this pipeline's; nil where all are. One without a tenant has the tenant "".
func oursCondition(t *outbox.Table) bson.D {
	if len(t.Tenants) == 0 {
		return nil
	}
	all := tenantValues(t)
	if slices.Contains(t.Tenants, "") {
		all = append(all, nil)
	}
	return bson.D{{Key: t.Columns.Tenant, Value: bson.D{{Key: "$in", Value: all}}}}
}

// tenantValues are all that the field of a tenant may hold: the log has the text of an ObjectID, a UUID and a number too.
func tenantValues(t *outbox.Table) bson.A {
	var all bson.A
	for _, tenant := range t.Tenants {
		all = appendIDs(all, 0, tenant)
	}
	return all
}
