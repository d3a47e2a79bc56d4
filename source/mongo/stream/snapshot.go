package stream

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// A snapshot is the state of the tables at a cluster time: all reads of one session with snapshot reads have the time
// of the first one, and reading the log begins right behind it. The server keeps such a state for
// minSnapshotHistoryWindowInSeconds, 5 minutes as a rule. A sweep that takes longer fails then; the next start sweeps what is still
// pending at a new position, but for a collection that is kept (sweep.broken).
type snapshot struct {
	cfg    *conn.Config
	client *mongo.Client
	at     oplog.Time
	sweeps []sweep
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	table *outbox.Table
	where bson.D
}

var _ source.Snapshot = (*snapshot)(nil)

// Establish implements source.Source. Nothing is made at the server: the oplog is there in any case.
func (s *Source) Establish(ctx context.Context) (source.Snapshot, error) {
	if s.err != nil {
		return nil, s.err
	}
	client, err := s.cfg.Connect()
	if err != nil {
		return nil, err
	}
	snap := &snapshot{cfg: &s.cfg, client: client}
	if err := snap.open(ctx); err != nil {
		return nil, errors.Join(err, conn.Disconnect(ctx, client))
	}
	s.cfg.Logger.Info("established a position in the log", "position", snap.at.String())
	return snap, nil
}

func (s *snapshot) open(ctx context.Context) error {
	h, err := conn.Greet(ctx, s.client)
	if err != nil {
		return err
	}
	if err := h.Usable(); err != nil {
		return err
	}
	if err := catalog.Existing(ctx, s.cfg, s.client); err != nil {
		return err
	}
	now, err := oplog.Now(ctx, s.client)
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
		{Key: "readConcern", Value: bson.D{{Key: "level", Value: "snapshot"}, {Key: "afterClusterTime", Value: now.Timestamp()}}},
	}).Decode(&reply)
	if err != nil {
		return conn.Fault("take a snapshot of "+t.String(), err)
	}
	if s.at = oplog.TimeOf(reply.Cursor.At.T, reply.Cursor.At.I); s.at == 0 {
		return errors.New("take a snapshot: the server does not say of which time it is")
	}
	return nil
}

// Resume implements source.Snapshot.
func (s *snapshot) Resume() source.Resume { return oplog.Place{At: s.at}.Resume() }

// Close implements source.Snapshot.
func (s *snapshot) Close(ctx context.Context) error { return conn.Disconnect(ctx, s.client) }

// Judge implements source.Snapshot.
func (s *snapshot) Judge(ctx context.Context, known source.Known) (bool, error) {
	s.sweeps = nil
	var unjudged []error
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		where, fix := catalog.PendingRows(s.cfg, t, known)
		if where == nil {
			continue
		}
		found, err := s.exists(ctx, t, where)
		switch {
		case err != nil:
			return false, err
		case found && fix != "" && !known.AcceptGap:
			unjudged = append(unjudged, fmt.Errorf("collection %s has documents and neither a status nor a delivered_at field: %s: %w", t, fix, source.ErrUnjudged))
		case found && fix == "":
			s.sweeps = append(s.sweeps, sweep{t, where})
		}
	}
	return len(s.sweeps) > 0, errors.Join(unjudged...)
}

func (s *snapshot) exists(ctx context.Context, t *outbox.Table, where bson.D) (bool, error) {
	cur, err := s.find(ctx, t.Schema, t.Name, where, bson.E{Key: "limit", Value: 1}, bson.E{Key: "projection", Value: bson.D{{Key: "_id", Value: 1}}})
	if err != nil {
		return false, conn.Fault("look for pending documents in "+t.String(), err)
	}
	found := cur.Next(ctx)
	if err := errors.Join(cur.Err(), cur.Close(ctx)); err != nil {
		return false, conn.Fault("look for pending documents in "+t.String(), err)
	}
	return found, nil
}

// find reads a collection as it was at the snapshot's time.
func (s *snapshot) find(ctx context.Context, database, name string, where bson.D, further ...bson.E) (*mongo.Cursor, error) {
	command := bson.D{{Key: "find", Value: name}, {Key: "filter", Value: where},
		{Key: "readConcern", Value: bson.D{{Key: "level", Value: "snapshot"}, {Key: "atClusterTime", Value: s.at.Timestamp()}}}}
	return s.client.Database(database).RunCommandCursor(ctx, append(command, further...))
}
