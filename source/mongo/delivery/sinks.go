package delivery

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store"
)

// Sinks names for each message the sinks that have a delivery of it parked, in whatever state: also of a delivery that was
// dropped or delivered, a document is kept until its message is settled. A foreign one (ParkedRow.Foreign) does not count. Nil if nothing is parked.
// table returns the table of one of the messages.
func Sinks(ctx context.Context, pipeline string, ms []*outbox.Message, table func(name string) *outbox.Table,
	find func(where, fields bson.D) (*mongo.Cursor, error)) ([][]string, error) {
	places := make(map[store.MessageKey]int, len(ms))
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i], places[store.MessageKey{Table: m.Table, ID: m.ID}] = m.ID, i
	}
	fields := bson.D{{Key: "_id", Value: 0}}
	for _, name := range []string{"message_id", "source_table", "sink", "state", "row_settled", "unfinished", "in_table"} {
		fields = append(fields, bson.E{Key: name, Value: 1})
	}
	cur, err := find(bson.D{{Key: "pipeline", Value: pipeline}, {Key: "message_id", Value: bson.D{{Key: "$in", Value: ids}}}}, fields)
	if err != nil {
		return nil, conn.Fault("look for parked deliveries", err)
	}
	var found []struct {
		ID         string `bson:"message_id"`
		Table      string `bson:"source_table"`
		Sink       string `bson:"sink"`
		State      string `bson:"state"`
		RowSettled bool   `bson:"row_settled"`
		Unfinished bool   `bson:"unfinished"`
		InTable    bool   `bson:"in_table"`
	}
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("look for parked deliveries", err)
	}
	var at [][]string
	for _, f := range found {
		i, ok := places[store.MessageKey{Table: f.Table, ID: f.ID}]
		row := store.ParkedRow{Parked: checkpoint.Parked{State: checkpoint.State(f.State), InTable: f.InTable}, RowSettled: f.RowSettled, Unfinished: f.Unfinished}
		if !ok || row.Foreign(table(f.Table)) {
			continue
		}
		if at == nil {
			at = make([][]string, len(ms))
		}
		at[i] = append(at[i], f.Sink)
	}
	return at, nil
}
