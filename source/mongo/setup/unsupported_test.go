package setup

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// A collection that cannot be an outbox is refused, with the fix, by check and at each start: one that is capped, and one by whose collation
// what settles a message would settle another's document too.
func TestUnsupportedCollections(t *testing.T) {
	t.Parallel()
	collation := &options.Collation{Locale: "en", Strength: 2}
	index := func(c *options.Collation) mongo.IndexModel {
		return mongo.IndexModel{Keys: bson.D{{Key: "id", Value: 1}}, Options: options.Index().SetUnique(true).SetCollation(c)}
	}
	simple, same := index(&options.Collation{Locale: "simple"}), index(collation)
	for what, c := range map[string]struct {
		made  *options.CreateCollectionOptionsBuilder
		index *mongo.IndexModel
		id    string
		fix   string // "" = it can be one
	}{
		"capped":                       {options.CreateCollection().SetCapped(true).SetSizeInBytes(1 << 20), nil, "_id", "not capped"},
		"collation":                    {options.CreateCollection().SetCollation(collation), nil, "id", "unique index"},
		"collation, unique otherwise":  {options.CreateCollection().SetCollation(collation), &simple, "id", "unique index"},
		"collation, unique by it":      {options.CreateCollection().SetCollation(collation), &same, "id", ""},
		"collation, and _id is the id": {options.CreateCollection().SetCollation(collation), nil, "_id", ""},
		"no collation":                 {options.CreateCollection(), nil, "id", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table := mongotest.Table("tailbox")
			table.Columns.ID = c.id
			r := newRig(t, servers.SharedMongo(t), table)
			r.Must(r.Collection(0).Drop(r.Ctx))
			r.Must(r.Client.Database(r.Config.Schema).CreateCollection(r.Ctx, r.Collection(0).Name(), c.made))
			if c.index != nil {
				_, err := r.Collection(0).Indexes().CreateOne(r.Ctx, *c.index)
				r.Must(err)
			}
			snap, err := stream.New(r.Config).Establish(r.Ctx)
			if err == nil {
				r.Must(snap.Close(r.Ctx))
			}
			refused := err != nil && errors.Is(err, source.ErrStop)
			if refused != (c.fix != "") || refused && !strings.Contains(err.Error(), c.fix) {
				t.Errorf("establish: %v, want %q", err, c.fix)
			}
			if found := r.Findings(Check(r.Ctx, r.Config)); strings.Contains(found, "capped") != strings.Contains(c.fix, "capped") ||
				strings.Contains(found, "collation") != strings.Contains(c.fix, "index") {
				t.Errorf("check: %s", found)
			}
		})
	}
}

// Init refuses what can never be an outbox before it creates anything, in the words of check. What an index mends, it mends.
func TestInitOnUnsupportedCollections(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		made *options.CreateCollectionOptionsBuilder // nil: a view
		want string                                  // "" = it is taken
	}{
		"view":        {nil, "is a view: the log has no inserts into it: name a collection in source.tables"},
		"time series": {options.CreateCollection().SetTimeSeriesOptions(options.TimeSeries().SetTimeField("created_at")), "is a timeseries: the log has no inserts into it: name a collection"},
		"capped":      {options.CreateCollection().SetCapped(true).SetSizeInBytes(1 << 20), "is capped: no transaction may change it, and no snapshot shows it: use a collection that is not capped"},
		"collation":   {options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2}), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			table := mongotest.Table("tailbox")
			table.Columns.ID = "id"
			r := newRig(t, servers.SharedMongo(t), table)
			db := r.Client.Database(r.Config.Schema)
			r.Must(db.Drop(r.Ctx))
			if c.made == nil {
				r.Must(db.CreateView(r.Ctx, r.Collection(0).Name(), "elsewhere", mongo.Pipeline{}))
			} else {
				r.Must(db.CreateCollection(r.Ctx, r.Collection(0).Name(), c.made))
			}
			created, err := Init(r.Ctx, r.Config)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if found := r.Findings(Check(r.Ctx, r.Config)); strings.Contains(found, "collation") {
					t.Errorf("check after init: %s", found)
				}
				return
			}
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.want) || len(created) != 0 {
				t.Errorf("init created %v: %v, want %q", created, err, c.want)
			}
		})
	}
}
