package mongo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A migration is one numbered step that brings documents of an earlier version up to date; most steps of the other databases have nothing
// to do here. It can be repeated. Collections and indexes need none: Init makes those that are missing.
type migration struct {
	name       string
	collection string // "" for nothing to do
	of         bson.D
	change     bson.D
}

// migrations have the numbers and names that the other databases give them.
func migrations() []migration {
	return []migration{
		{name: "0001_tables"},
		{name: "0002_tries", collection: parkedCollection, of: bson.D{{Key: "tries", Value: bson.D{{Key: "$exists", Value: false}}}},
			change: bson.D{{Key: "$set", Value: bson.D{{Key: "tries", Value: "$attempts"}, {Key: "failed_epoch", Value: int64(0)}, {Key: "failed_call", Value: int64(0)},
				{Key: "tried_at", Value: bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$gt", Value: bson.A{"$attempts", 0}}}, "$changed_at", "$$REMOVE"}}}}}}}},
		{name: "0003_migration"},
	}
}

// known are the migrations' names.
func known() (list []store.Migration) {
	for _, m := range migrations() {
		list = append(list, store.Migration{Name: m.name})
	}
	return list
}

// firstFields are those of the document of a pipeline that never ran, but for its lease. The field migration is the number of the last
// migration that was run; it is the same in all documents that have it.
func firstFields(migration int) bson.D {
	return bson.D{{Key: "log", Value: int64(0)}, {Key: "last_commit", Value: int64(0)}, {Key: "sweep_pending", Value: false}, {Key: "unclean_starts", Value: 0},
		{Key: "lease_epoch", Value: int64(0)}, {Key: "schema_version", Value: store.SchemaVersion}, {Key: "migration", Value: migration}}
}

// record notes the last migration: in the pipeline's document, which it makes, and in those of other pipelines.
func (c *Config) record() (of, first, others, set bson.D) {
	n := len(migrations())
	return bson.D{{Key: "_id", Value: c.Pipeline}}, bson.D{{Key: "$setOnInsert", Value: firstFields(n)}},
		bson.D{{Key: "migration", Value: bson.D{{Key: "$ne", Value: n}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "migration", Value: n}}}}
}

// migrate runs the migrations that are missing, and returns their names.
func (c *Config) migrate(ctx context.Context, client *mongo.Client) (done string, err error) {
	state, err := c.stateOf(ctx, client)
	if err != nil {
		return "", err
	}
	missing := state.Pending(known())
	for _, m := range migrations()[len(migrations())-len(missing):] {
		if m.collection == "" {
			continue
		}
		if _, err := client.Database(c.Schema).Collection(m.collection).UpdateMany(ctx, m.of, mongo.Pipeline{m.change}); err != nil {
			return "", fmt.Errorf("update collections tailbox_* (%s): %w", m.name, initFault(err))
		}
	}
	return store.MigrationNames(missing), nil
}

// recorded notes that all migrations were run, and the indexes made that this version names.
func (c *Config) recorded(ctx context.Context, client *mongo.Client) error {
	of, first, others, set := c.record()
	documents := client.Database(c.Schema).Collection(checkpointCollection)
	_, err := documents.UpdateOne(ctx, of, first, options.UpdateOne().SetUpsert(true))
	if err == nil || mongo.IsDuplicateKeyError(err) {
		_, err = documents.UpdateMany(ctx, others, set)
	}
	if err != nil {
		return fmt.Errorf("record the migration of collections tailbox_*: %w", initFault(err))
	}
	return nil
}

// initFault says what to do about a user who may not.
func initFault(err error) error {
	if hasCode(err, codeUnauthorized) {
		return fmt.Errorf("%w: %w: run the commands of `tailbox init --print` as a user with the right to, then tailbox init", source.ErrStop, err)
	}
	return err
}

// script runs all migrations on collections of whatever age.
func (c *Config) migrationScript(b *strings.Builder) {
	in := func(name string) string {
		return fmt.Sprintf("%s.getCollection(%s)", inDatabase(c.Schema), quote(name))
	}
	for _, m := range migrations() {
		if m.collection != "" {
			fmt.Fprintf(b, "%s.updateMany(%s, [%s]); // %s\n", in(m.collection), script(m.of), script(m.change), m.name)
		}
	}
}

// recordScript is recorded as a script.
func (c *Config) recordScript(b *strings.Builder) {
	of, first, others, set := c.record()
	documents := fmt.Sprintf("%s.getCollection(%s)", inDatabase(c.Schema), quote(checkpointCollection))
	fmt.Fprintf(b, "%[1]s.updateOne(%[2]s, %[3]s, {upsert: true});\n%[1]s.updateMany(%[4]s, %[5]s);\n", documents, script(of), script(first), script(others), script(set))
}

// stateOf returns what was done to the relay's collections, which are there.
func (c *Config) stateOf(ctx context.Context, client *mongo.Client) (s store.Schema, err error) {
	var found struct {
		Migration int `bson:"migration"`
		Version   int `bson:"schema_version"`
	}
	cur, err := client.Database(c.Schema).Collection(checkpointCollection).Aggregate(ctx, bson.A{bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil},
		{Key: "migration", Value: bson.D{{Key: "$max", Value: "$migration"}}}, {Key: "schema_version", Value: bson.D{{Key: "$max", Value: "$schema_version"}}}}}}})
	if err != nil {
		return s, fault("look for the last migration of collections tailbox_*", err)
	}
	defer func() { err = errors.Join(err, cur.Close(ctx)) }()
	if cur.Next(ctx) {
		if err := cur.Decode(&found); err != nil {
			return s, err
		}
	}
	return store.Schema{Migration: max(found.Migration, 1), Version: found.Version}, fault("look for the last migration of collections tailbox_*", cur.Err())
}

// current refuses collections that lack migrations, and collections that mean something else.
func (s *stateStore) current(ctx context.Context) error {
	state, err := s.cfg.stateOf(ctx, s.client)
	if err != nil {
		return err
	}
	if err := state.Refusal(known()); err != nil {
		return fmt.Errorf("%w: database %q: %w", source.ErrStop, s.cfg.Schema, err)
	}
	s.migration = state.Migration
	return nil
}
