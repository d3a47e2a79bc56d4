package store

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// Documents without an id come before all others, and no look at the collection by id may stay with them, however many they are.
func TestWindowsOfDocumentsWithoutID(t *testing.T) {
	t.Parallel()
	for what, lack := range map[string]bson.D{"absent": nil, "null": {{Key: "key_of_mine", Value: nil}}, "undefined": {{Key: "key_of_mine", Value: bson.Undefined{}}}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table := mongotest.Table("tailbox")
			table.Columns.ID, table.OnDelivered, table.Retention = "key_of_mine", outbox.Mark, time.Hour
			r := newRig(t, servers.SharedMongo(t), table)
			c := r.Collection(0)
			// Init makes an index that allows one such document. An application's own may be another one.
			r.Must(c.Indexes().DropAll(r.Ctx))
			_, err := c.Indexes().CreateOne(r.Ctx, mongo.IndexModel{Keys: bson.D{{Key: "key_of_mine", Value: 1}},
				Options: options.Index().SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "key_of_mine", Value: bson.D{{Key: "$type", Value: "string"}}}})})
			r.Must(err)
			state := func(status string) bson.D {
				return bson.D{{Key: "status", Value: status}, {Key: table.Columns.DeliveredAt, Value: time.Unix(0, 0)}}
			}
			docs := []any{append(state("pending"), bson.E{Key: "key_of_mine", Value: "new"}), append(state("delivered"), bson.E{Key: "key_of_mine", Value: "old"})}
			for range pendingWindow {
				docs = append(docs, append(state("pending"), lack...))
			}
			for range store.CleanWindow {
				docs = append(docs, append(state("delivered"), lack...))
			}
			_, err = c.InsertMany(r.Ctx, docs)
			r.Must(err)
			s := opened(r)
			removed, next := 0, ""
			for try := 0; try == 0 || next != "" && try < 20; try++ {
				var n int
				n, next, err = s.Clean(r.Ctx, next)
				r.Must(err)
				removed += n
			}
			mongotest.Equal(t, "removed", removed, 1)
			mongotest.Equal(t, "clean-up goes on at", next, "")
			rows := &checkpoint.PendingRows{}
			for try := 0; try == 0 || rows.Cursor != "" && try < 20; try++ {
				more, err := s.Pending(r.Ctx, rows.Cursor, 10)
				r.Must(err)
				rows.Rows, rows.Cursor = append(rows.Rows, more.Rows...), more.Cursor
			}
			mongotest.Equal(t, "the list goes on at", rows.Cursor, "")
			if len(rows.Rows) != 1 || rows.Rows[0].ID != "new" {
				t.Errorf("pending: %v", rows.Rows)
			}
		})
	}
}
