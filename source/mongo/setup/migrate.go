package setup

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store/migration"
)

// record notes the last migration: in the pipeline's document, which it makes, and in those of other pipelines.
func record(cfg *conn.Config) (of, first, others, set bson.D) {
	n := len(catalog.Migrations())
	return bson.D{{Key: "_id", Value: cfg.Pipeline}}, bson.D{{Key: "$setOnInsert", Value: catalog.FirstFields(n)}},
		bson.D{{Key: "migration", Value: bson.D{{Key: "$ne", Value: n}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "migration", Value: n}}}}
}

// migrate runs the migrations that are missing, and returns their names.
func migrate(ctx context.Context, cfg *conn.Config, client *mongo.Client) (done string, err error) {
	state, err := catalog.SchemaOf(ctx, cfg, client)
	if err != nil {
		return "", err
	}
	missing := state.Pending(catalog.Known())
	for _, m := range catalog.Migrations()[len(catalog.Migrations())-len(missing):] {
		if m.Collection == "" {
			continue
		}
		if _, err := client.Database(cfg.Schema).Collection(m.Collection).UpdateMany(ctx, m.Of, mongo.Pipeline{m.Change}); err != nil {
			return "", fmt.Errorf("update collections tailbox_* (%s): %w", m.Name, initFault(err))
		}
	}
	return migration.Names(missing), nil
}

// recorded notes that all migrations were run, and the indexes made that this version names.
func recorded(ctx context.Context, cfg *conn.Config, client *mongo.Client) error {
	of, first, others, set := record(cfg)
	documents := client.Database(cfg.Schema).Collection(catalog.Checkpoints)
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
	if conn.HasCode(err, conn.CodeUnauthorized) {
		return fmt.Errorf("%w: %w: run the commands of `tailbox init --print` as a user with the right to, then tailbox init", source.ErrStop, err)
	}
	return err
}

// migrationScript runs all migrations on collections of whatever age.
func migrationScript(cfg *conn.Config, b *strings.Builder) {
	in := func(name string) string {
		return fmt.Sprintf("%s.getCollection(%s)", inDatabase(cfg.Schema), quote(name))
	}
	for _, m := range catalog.Migrations() {
		if m.Collection != "" {
			fmt.Fprintf(b, "%s.updateMany(%s, [%s]); // %s\n", in(m.Collection), script(m.Of), script(m.Change), m.Name)
		}
	}
}

// recordScript is recorded as a script.
func recordScript(cfg *conn.Config, b *strings.Builder) {
	of, first, others, set := record(cfg)
	documents := fmt.Sprintf("%s.getCollection(%s)", inDatabase(cfg.Schema), quote(catalog.Checkpoints))
	fmt.Fprintf(b, "%[1]s.updateOne(%[2]s, %[3]s, {upsert: true});\n%[1]s.updateMany(%[4]s, %[5]s);\n", documents, script(of), script(first), script(others), script(set))
}
