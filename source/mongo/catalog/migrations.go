package catalog

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store/migration"
)

// A Migration is one numbered step that brings documents of an earlier version up to date; most steps of the other databases have nothing
// to do here. It can be repeated. Collections and indexes need none: Init makes those that are missing.
type Migration struct {
	Name       string
	Collection string // "" for nothing to do
	Of         bson.D
	Change     bson.D
}

// Migrations have the numbers and names that the other databases give them.
func Migrations() []Migration {
	return []Migration{
		{Name: "0001_tables"},
		{Name: "0002_tries", Collection: Parked, Of: bson.D{{Key: "tries", Value: bson.D{{Key: "$exists", Value: false}}}},
			Change: bson.D{{Key: "$set", Value: bson.D{{Key: "tries", Value: "$attempts"}, {Key: "failed_epoch", Value: int64(0)}, {Key: "failed_call", Value: int64(0)},
				{Key: "tried_at", Value: bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$gt", Value: bson.A{"$attempts", 0}}}, "$changed_at", "$$REMOVE"}}}}}}}},
		{Name: "0003_migration"},
		{Name: "0004_dead"},
	}
}

// Known are the migrations' names.
func Known() (list []migration.Step) {
	for _, m := range Migrations() {
		list = append(list, migration.Step{Name: m.Name})
	}
	return list
}

// FirstFields are those of the document of a pipeline that never ran, but for its lease. The field migration is the number of the last
// migration that was run; it is the same in all documents that have it.
func FirstFields(last int) bson.D {
	return bson.D{{Key: "log", Value: int64(0)}, {Key: "last_commit", Value: int64(0)}, {Key: "sweep_pending", Value: false}, {Key: "unclean_starts", Value: 0},
		{Key: "lease_epoch", Value: int64(0)}, {Key: "schema_version", Value: migration.Version}, {Key: "migration", Value: last}}
}

// SchemaOf returns what was done to the relay's collections, which are there.
func SchemaOf(ctx context.Context, cfg *conn.Config, client *mongo.Client) (s migration.State, err error) {
	var found struct {
		Migration int `bson:"migration"`
		Version   int `bson:"schema_version"`
	}
	cur, err := client.Database(cfg.Schema).Collection(Checkpoints).Aggregate(ctx, bson.A{bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil},
		{Key: "migration", Value: bson.D{{Key: "$max", Value: "$migration"}}}, {Key: "schema_version", Value: bson.D{{Key: "$max", Value: "$schema_version"}}}}}}})
	if err != nil {
		return s, conn.Fault("look for the last migration of collections tailbox_*", err)
	}
	defer func() { err = errors.Join(err, cur.Close(ctx)) }()
	if cur.Next(ctx) {
		if err := cur.Decode(&found); err != nil {
			return s, err
		}
	}
	return migration.State{Migration: max(found.Migration, 1), Version: found.Version}, conn.Fault("look for the last migration of collections tailbox_*", cur.Err())
}
