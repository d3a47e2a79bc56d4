package delivery

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// Sinks names for each message the sinks that have a delivery of it parked, in whatever state: also of a delivery that was
// dropped or delivered, a document is kept until its message is settled. Nil where nothing is.
func Sinks(ctx context.Context, pipeline string, ms []*outbox.Message, find func(where, fields bson.D) (*mongo.Cursor, error)) ([][]string, error) {
	places := make(map[store.MessageKey]int, len(ms))
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i], places[store.MessageKey{Table: m.Table, ID: m.ID}] = m.ID, i
	}
	cur, err := find(bson.D{{Key: "pipeline", Value: pipeline}, {Key: "message_id", Value: bson.D{{Key: "$in", Value: ids}}}},
		bson.D{{Key: "_id", Value: 0}, {Key: "message_id", Value: 1}, {Key: "source_table", Value: 1}, {Key: "sink", Value: 1}})
	if err != nil {
		return nil, conn.Fault("look for parked deliveries", err)
	}
	var found []struct {
		ID    string `bson:"message_id"`
		Table string `bson:"source_table"`
		Sink  string `bson:"sink"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("look for parked deliveries", err)
	}
	var at [][]string
	for _, f := range found {
		i, ok := places[store.MessageKey{Table: f.Table, ID: f.ID}]
		if !ok {
			continue
		}
		if at == nil {
			at = make([][]string, len(ms))
		}
		at[i] = append(at[i], f.Sink)
	}
	return at, nil
}
