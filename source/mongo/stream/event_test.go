package stream

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/source/mongo/mongotest"
)

// An event's table is found by the names, whatever else a server says beside them.
func TestTableOf(t *testing.T) {
	t.Parallel()
	st := &stream{}
	for _, name := range []string{"outbox", "other"} {
		table := mongotest.Table("debezium")
		table.Name = name
		streamed, err := newStreamTable(&table)
		if err != nil {
			t.Fatal(err)
		}
		st.tables = append(st.tables, streamed)
	}
	for _, test := range []struct {
		ns   bson.D
		want string
	}{
		{bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "outbox"}}, "outbox"},
		{bson.D{{Key: "coll", Value: "other"}, {Key: "db", Value: "shop"}}, "other"},
		{bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "other"}, {Key: "more", Value: 1}}, "other"},
		{bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "orders"}}, ""},
		{bson.D{{Key: "db", Value: "sho"}, {Key: "coll", Value: "outbox"}}, ""},
		{bson.D{{Key: "db", Value: "shop"}}, ""},
	} {
		raw, err := bson.Marshal(test.ns)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if table := st.tableOf(raw); table != nil {
			got = table.table.Name
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", bson.Raw(raw), got, test.want)
		}
	}
	if st.tableOf(nil) != nil {
		t.Error("no name is that of a table")
	}
}

// Bytes that are no event are an error, never a panic.
func FuzzChanges(f *testing.F) {
	for _, operation := range []string{"insert", "rename", "invalidate", ""} {
		raw, err := bson.Marshal(bson.D{{Key: "_id", Value: bson.D{{Key: "_data", Value: "82"}}}, {Key: "operationType", Value: operation},
			{Key: "clusterTime", Value: bson.Timestamp{T: 1, I: 1}}, {Key: "wallTime", Value: bson.DateTime(1)}, {Key: "txnNumber", Value: int64(1)},
			{Key: "fullDocument", Value: bson.D{{Key: "_id", Value: "1"}, {Key: "payload", Value: bson.A{nil, 1.5, bson.NewObjectID(), bson.Regex{Pattern: "a"}}}}},
			{Key: "ns", Value: bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "outbox"}}}, {Key: "to", Value: bson.D{{Key: "db", Value: "shop"}}},
			{Key: "documentKey", Value: bson.D{{Key: "_id", Value: "1"}}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(raw))
		f.Add([]byte(raw[:len(raw)/2]))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if c, err := parseChange(raw); err == nil {
			_, _ = c.ns.String(), c.to.String()
		}
	})
}
