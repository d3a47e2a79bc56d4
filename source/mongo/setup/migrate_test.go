package setup

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateCollections: what an earlier version parked is refused with what to do, and brought up to date by Init: each delivery keeps
// what it had, and its tries are its attempts.
func TestUpdateCollections(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	s := opened(r)
	var parks []checkpoint.Parked
	for i, p := range []checkpoint.Parked{{State: checkpoint.StateRetrying, Blocks: true, Attempts: 4, Due: true}, {State: checkpoint.StateWaiting, Blocks: true},
		{State: checkpoint.StateDead, Attempts: 15}, {State: checkpoint.StateDropped, Attempts: 2}, {State: checkpoint.StateDelivered, Attempts: 3}} {
		p.Sink, p.Message = "kafka", &outbox.Message{ID: fmt.Sprint(i), Group: "g", Table: r.Config.Tables[0].String(), Position: outbox.Position{Log: 1, Commit: uint64(i + 1)}}
		parks = append(parks, p)
	}
	_, err := s.Settle(r.Ctx, &checkpoint.Settlement{Park: parks})
	r.Must(err)
	r.Must(s.Close(r.Ctx))
	parked := r.Client.Database(r.Config.Schema).Collection(catalog.Parked)
	_, err = parked.UpdateMany(r.Ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "tries", Value: ""}, {Key: "tried_at", Value: ""},
		{Key: "failed_epoch", Value: ""}, {Key: "failed_call", Value: ""}}}})
	r.Must(err)
	for _, index := range []string{catalog.UntriedIndex, catalog.DeadIndex} {
		r.Must(parked.Indexes().DropOne(r.Ctx, index))
	}
	checkpoints := r.Client.Database(r.Config.Schema).Collection(catalog.Checkpoints)
	_, err = checkpoints.UpdateMany(r.Ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "migration", Value: ""}}}})
	r.Must(err)
	read := func(fields bson.D) (docs []bson.D) {
		cur, err := parked.Find(r.Ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "position", Value: 1}}).SetProjection(fields))
		r.Must(err)
		r.Must(cur.All(r.Ctx, &docs))
		return docs
	}
	rest := bson.D{{Key: "tries", Value: 0}, {Key: "tried_at", Value: 0}, {Key: "failed_epoch", Value: 0}, {Key: "failed_call", Value: 0}}
	before := read(rest)
	if _, err := store.Open(r.Ctx, r.Config); err == nil || !strings.Contains(err.Error(), "run tailbox init") {
		t.Errorf("open a store on collections of an earlier version: %v", err)
	}
	mongotest.Equal(t, "check", r.Findings(Check(r.Ctx, r.Config)), "problem: collection shop.tailbox_parked has no index untried\n"+
		"problem: collection shop.tailbox_parked has no index dead\n"+"problem: the tables tailbox_* are of an earlier version: they lack 0002_tries, 0003_migration, 0004_dead")
	done, err := Init(r.Ctx, r.Config)
	r.Must(err)
	mongotest.Equal(t, "init", strings.ReplaceAll(strings.Join(done, ", "), r.Config.Schema, "shop"), "created index untried of shop.tailbox_parked, created index dead of shop.tailbox_parked, "+
		"updated collections tailbox_*: 0002_tries, 0003_migration, 0004_dead")
	if again, err := Init(r.Ctx, r.Config); err != nil || len(again) > 0 {
		t.Errorf("second init: %v, %v", again, err)
	}
	mongotest.Equal(t, "what was there", fmt.Sprint(read(rest)), fmt.Sprint(before))
	cur, err := parked.Find(r.Ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "position", Value: 1}}))
	r.Must(err)
	docs, err := delivery.All(r.Ctx, cur)
	r.Must(err)
	var tries []string
	for _, d := range docs {
		text := fmt.Sprint(d.Tries)
		if d.TriedAt.Equal(d.ChangedAt) {
			text += "@"
		}
		tries = append(tries, text)
	}
	mongotest.Equal(t, "tries", strings.Join(tries, " "), "4@ 0 15@ 2@ 3@")
	if due, _, err := opened(r).Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20}); err != nil || len(due) != 1 || due[0].Tries != 4 {
		t.Errorf("due: %v, %v", due, err)
	}
}
