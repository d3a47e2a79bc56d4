package mongo

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// A sweep that outlasts the server's snapshot begins again where that gets it on. Where documents are kept it would send the same ones
// again and again, and stops.
func TestSweepOutlastsSnapshot(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t)
	for _, c := range []struct {
		on   outbox.OnDelivered
		stop bool
	}{{outbox.Keep, true}, {outbox.Delete, false}} {
		table := kitTable("debezium")
		table.OnDelivered = c.on
		r := newRig(t, server, table)
		r.cfg.Start = "pending"
		r.fill(4 * parkedAtOnce)
		snap, err := New(r.cfg).Establish(r.ctx)
		r.must(err)
		sweep, err := snap.Judge(r.ctx, source.Known{First: true})
		r.must(err)
		equal(t, "sweep", sweep, true)
		err = snap.Pending(r.ctx, 1, func(ctx context.Context, _ *source.Batch) error {
			r.forgetSnapshots(snap.(*tableSnapshot))
			return nil
		})
		r.must(snap.Close(r.ctx))
		if err == nil || !strings.Contains(err.Error(), "minSnapshotHistoryWindowInSeconds") || errors.Is(err, source.ErrStop) != c.stop {
			t.Errorf("%s: the sweep ended with %v, want it to stop: %v", c.on, err, c.stop)
		}
		if name := r.cfg.Tables[0].String(); err != nil && !strings.Contains(err.Error(), "collection "+name) {
			t.Errorf("%s: %v does not name collection %s", c.on, err, name)
		}
	}
}

// forgetSnapshots has the server keep no snapshots, until it has given this one up.
func (r *rig) forgetSnapshots(snap *tableSnapshot) {
	r.t.Helper()
	keep := func(seconds int) {
		r.must(r.client.Database("admin").RunCommand(r.ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: "minSnapshotHistoryWindowInSeconds", Value: seconds}}).Err())
	}
	keep(0)
	defer keep(300)
	r.until("the snapshot is too old", func() bool {
		_, err := r.client.Database(r.cfg.Schema).Collection("other").InsertOne(r.ctx, bson.D{})
		r.must(err)
		_, err = snap.exists(r.ctx, &r.cfg.Tables[0], bson.D{})
		return hasCode(err, codeSnapshotTooOld)
	})
}
