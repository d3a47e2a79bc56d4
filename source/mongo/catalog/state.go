package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
)

// A State is what listCollections says.
type State struct {
	Name    string `bson:"name"`
	Type    string `bson:"type"` // collection, view or timeseries
	Options struct {
		Capped    bool     `bson:"capped"`
		Collation bson.Raw `bson:"collation"`
	} `bson:"options"`
	Info struct {
		UUID bson.Binary `bson:"uuid"`
	} `bson:"info"`
}

// Find looks a collection up; nil if it does not exist.
func Find(ctx context.Context, client *mongo.Client, database, name string) (*State, error) {
	cur, err := client.Database(database).ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return nil, conn.Fault("look for collection "+database+"."+name, err)
	}
	var found []State
	if err := cur.All(ctx, &found); err != nil {
		return nil, conn.Fault("look for collection "+database+"."+name, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// Existing looks all tables up. A missing one is an error that matches source.ErrStop.
func Existing(ctx context.Context, cfg *conn.Config, client *mongo.Client) error {
	var errs []error
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		info, err := Find(ctx, client, t.Schema, t.Name)
		if err != nil {
			return err
		}
		if info == nil {
			errs = append(errs, fmt.Errorf("%w: collection %s does not exist (dropped or renamed?): restore it, create it with "+
				"tailbox init, or correct source.tables", source.ErrNoTable, t))
			continue
		}
		what, fix, err := info.Unsupported(ctx, client, t)
		if err != nil {
			return err
		}
		if what != "" {
			errs = append(errs, fmt.Errorf("%w: %s: %s", source.ErrStop, what, fix))
		}
	}
	return errors.Join(errs...)
}

// NeverSupported says why a collection cannot be an outbox whatever its indexes are, with the fix; "" if it can.
func (s *State) NeverSupported(t *outbox.Table) (what, fix string) {
	switch {
	case cmp.Or(s.Type, "collection") != "collection":
		return fmt.Sprintf("%s is a %s: the log has no inserts into it", t, s.Type), "name a collection in source.tables"
	case s.Options.Capped:
		return fmt.Sprintf("collection %s is capped: no transaction may change it, and no snapshot shows it", t), "use a collection that is not capped"
	}
	return "", ""
}

// Unsupported says why a collection cannot be an outbox, with the fix; "" if it can.
func (s *State) Unsupported(ctx context.Context, client *mongo.Client, t *outbox.Table) (what, fix string, err error) {
	if what, fix = s.NeverSupported(t); what != "" {
		return what, fix, nil
	}
	if len(s.Options.Collation) == 0 || t.Columns.ID == "_id" { // of which there are no two that the collation takes for one
		return "", "", nil
	}
	unique, err := s.uniqueIDs(ctx, client, t)
	if unique || err != nil {
		return "", "", err
	}
	return fmt.Sprintf("collection %s has a collation of its own, by which two messages may have one %s", t, t.Columns.ID),
		"create a unique index on it in the collection's collation, or let _id be the id (source.tables.columns.id)", nil
}

// uniqueIDs reports whether no two documents have ids that the collection's collation takes for one.
func (s *State) uniqueIDs(ctx context.Context, client *mongo.Client, t *outbox.Table) (bool, error) {
	var indexes []struct {
		Key       bson.Raw `bson:"key"`
		Unique    bool     `bson:"unique"`
		Partial   bson.Raw `bson:"partialFilterExpression"`
		Collation bson.Raw `bson:"collation"`
	}
	cur, err := client.Database(t.Schema).Collection(t.Name).Indexes().List(ctx)
	if err == nil {
		err = cur.All(ctx, &indexes)
	}
	if err != nil {
		return false, conn.Fault("list indexes of "+t.String(), err)
	}
	for _, x := range indexes {
		if x.Unique && x.Partial == nil && slices.Equal(keysOf(x.Key), []string{t.Columns.ID}) && bytes.Equal(x.Collation, s.Options.Collation) {
			return true, nil
		}
	}
	return false, nil
}
