package stream

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
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
		table := mongotest.Table("debezium")
		table.OnDelivered = c.on
		r := newRig(t, server, table)
		r.Config.Start = "pending"
		r.Fill(4 * parkedAtOnce)
		snap, err := New(r.Config).Establish(r.Ctx)
		r.Must(err)
		sweep, err := snap.Judge(r.Ctx, source.Known{First: true})
		r.Must(err)
		mongotest.Equal(t, "sweep", sweep, true)
		err = snap.Pending(r.Ctx, 1, func(ctx context.Context, _ *source.Batch) error {
			forgetSnapshots(r, snap.(*snapshot))
			return nil
		})
		r.Must(snap.Close(r.Ctx))
		if err == nil || !strings.Contains(err.Error(), "minSnapshotHistoryWindowInSeconds") || errors.Is(err, source.ErrStop) != c.stop {
			t.Errorf("%s: the sweep ended with %v, want it to stop: %v", c.on, err, c.stop)
		}
		if name := r.Config.Tables[0].String(); err != nil && !strings.Contains(err.Error(), "collection "+name) {
			t.Errorf("%s: %v does not name collection %s", c.on, err, name)
		}
	}
}

// forgetSnapshots has the server keep no snapshots, until it has given this one up.
func forgetSnapshots(r *mongotest.Rig, snap *snapshot) {
	r.T.Helper()
	keep := func(seconds int) {
		r.Must(r.Client.Database("admin").RunCommand(r.Ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: "minSnapshotHistoryWindowInSeconds", Value: seconds}}).Err())
	}
	keep(0)
	defer keep(300)
	r.Until("the snapshot is too old", func() bool {
		_, err := r.Client.Database(r.Config.Schema).Collection("other").InsertOne(r.Ctx, bson.D{})
		r.Must(err)
		_, err = snap.exists(r.Ctx, &r.Config.Tables[0], bson.D{})
		return conn.HasCode(err, conn.CodeSnapshotTooOld)
	})
}
