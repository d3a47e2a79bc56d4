package mongo

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateCollections: what an earlier version parked is refused with what to do, and brought up to date by Init: each delivery keeps
// what it had, and its tries are its attempts.
func TestUpdateCollections(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	s := r.open()
	var parks []checkpoint.Parked
	for i, p := range []checkpoint.Parked{{State: checkpoint.StateRetrying, Blocks: true, Attempts: 4, Due: true}, {State: checkpoint.StateWaiting, Blocks: true},
		{State: checkpoint.StateDead, Attempts: 15}, {State: checkpoint.StateDropped, Attempts: 2}, {State: checkpoint.StateDelivered, Attempts: 3}} {
		p.Sink, p.Message = "kafka", &outbox.Message{ID: fmt.Sprint(i), Group: "g", Table: r.cfg.Tables[0].String(), Position: outbox.Position{Log: 1, Commit: uint64(i + 1)}}
		parks = append(parks, p)
	}
	_, err := s.Settle(r.ctx, &checkpoint.Settlement{Park: parks})
	r.must(err)
	r.must(s.Close(r.ctx))
	parked := r.client.Database(r.cfg.Schema).Collection(parkedCollection)
	_, err = parked.UpdateMany(r.ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "tries", Value: ""}, {Key: "tried_at", Value: ""},
		{Key: "failed_epoch", Value: ""}, {Key: "failed_call", Value: ""}}}})
	r.must(err)
	r.must(parked.Indexes().DropOne(r.ctx, untriedIndex))
	checkpoints := r.client.Database(r.cfg.Schema).Collection(checkpointCollection)
	_, err = checkpoints.UpdateMany(r.ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "migration", Value: ""}}}})
	r.must(err)
	read := func(fields bson.D) (docs []bson.D) {
		cur, err := parked.Find(r.ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "position", Value: 1}}).SetProjection(fields))
		r.must(err)
		r.must(cur.All(r.ctx, &docs))
		return docs
	}
	rest := bson.D{{Key: "tries", Value: 0}, {Key: "tried_at", Value: 0}, {Key: "failed_epoch", Value: 0}, {Key: "failed_call", Value: 0}}
	before := read(rest)
	if _, err := r.cfg.Open(r.ctx); err == nil || !strings.Contains(err.Error(), "run tailbox init") {
		t.Errorf("open a store on collections of an earlier version: %v", err)
	}
	equal(t, "check", r.findings(), "problem: collection shop.tailbox_parked has no index untried\n"+
		"problem: the tables tailbox_* are of an earlier version: they lack 0002_tries, 0003_migration")
	done, err := r.cfg.Init(r.ctx)
	r.must(err)
	equal(t, "init", strings.ReplaceAll(strings.Join(done, ", "), r.cfg.Schema, "shop"), "created index untried of shop.tailbox_parked, updated collections tailbox_*: 0002_tries, 0003_migration")
	if again, err := r.cfg.Init(r.ctx); err != nil || len(again) > 0 {
		t.Errorf("second init: %v, %v", again, err)
	}
	equal(t, "what was there", fmt.Sprint(read(rest)), fmt.Sprint(before))
	cur, err := parked.Find(r.ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "position", Value: 1}}))
	r.must(err)
	docs, err := documents(r.ctx, cur)
	r.must(err)
	var tries []string
	for _, d := range docs {
		text := fmt.Sprint(d.Tries)
		if d.TriedAt.Equal(d.ChangedAt) {
			text += "@"
		}
		tries = append(tries, text)
	}
	equal(t, "tries", strings.Join(tries, " "), "4@ 0 15@ 2@ 3@")
	if due, _, err := r.open().Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil || len(due) != 1 || due[0].Tries != 4 {
		t.Errorf("due: %v, %v", due, err)
	}
}
