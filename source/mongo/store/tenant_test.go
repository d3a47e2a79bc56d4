package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// The tenants of the configuration are texts, as the log has them; a document may have them in another type.
func TestTenantsOfAllTypes(t *testing.T) {
	t.Parallel()
	tenant := bson.NewObjectID()
	u := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte("0123456789abcdef")}
	table := mongotest.Table("tailbox")
	table.OnDelivered, table.Retention = outbox.Mark, time.Minute
	table.Tenants = []string{"7", tenant.Hex(), "30313233-3435-3637-3839-616263646566", ""}
	r := newRig(t, servers.SharedMongo(t), table)
	const ours = "int32 int64 none objectid text uuid"
	for id, value := range map[string]any{"int32": int32(7), "int64": int64(7), "objectid": tenant, "uuid": u, "text": "7", "none": nil,
		"other": int32(8), "others": bson.NewObjectID()} {
		_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "_id", Value: id}, {Key: "event_type", Value: "T"}, {Key: "status", Value: "pending"},
			{Key: table.Columns.Tenant, Value: value}})
		r.Must(err)
	}
	s := opened(r)
	pending, err := s.Pending(r.Ctx, "", 100)
	r.Must(err)
	var listed []string
	for _, row := range pending.Rows {
		listed = append(listed, row.ID)
	}
	slices.Sort(listed)
	mongotest.Equal(t, "pending", strings.Join(listed, " "), ours)
	var all []checkpoint.RowRef
	for _, id := range strings.Fields(ours + " other others") {
		all = append(all, checkpoint.RowRef{Table: r.Config.Tables[0].String(), ID: id})
	}
	ms, _, err := s.Fetch(r.Ctx, all, outbox.Position{Log: 1, Commit: 1}, 1<<20)
	r.Must(err)
	fetched := strings.Fields(mongotest.IDs(ms))
	slices.Sort(fetched)
	mongotest.Equal(t, "fetched", strings.Join(fetched, " "), ours)

	_, err = r.Collection(0).UpdateMany(r.Ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "delivered"},
		{Key: table.Columns.DeliveredAt, Value: time.Now().Add(-time.Hour)}}}})
	r.Must(err)
	removed, _, err := s.Clean(r.Ctx, "")
	r.Must(err)
	mongotest.Equal(t, "removed", removed, len(strings.Fields(ours)))
	left, err := r.Collection(0).CountDocuments(r.Ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{"other", "others"}}}}})
	r.Must(err)
	mongotest.Equal(t, "left of other tenants", left, 2)
}
