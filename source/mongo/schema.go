package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
)

// Names of indexes that queries name.
const (
	messageIndex = "message"
	laneIndex    = "lane"
	dueIndex     = "due"
	untriedIndex = "untried"
	sentIndex    = "sent"
)

// An index is one that Init makes.
type index struct {
	name    string
	keys    []string
	unique  bool
	partial bson.D
	named   bool // queries name it
}

// A collection is one that Init makes, with its indexes.
type collection struct {
	database, name string
	indexes        []index
}

func (c *collection) String() string { return c.database + "." + c.name }

// ownCollections are the relay's own. In tailbox_parked, lane leads to a lane's deliveries in order, blocking and other ones
// apart; due has one entry a lane, untried one for each whose first delivery was never tried: a probe finds these however many others are due.
func (c *Config) ownCollections() []collection {
	is := func(field string, v any) bson.D { return bson.D{{Key: field, Value: v}} }
	there := is("$exists", true)
	return []collection{
		{c.Schema, checkpointCollection, nil},
		{c.Schema, parkedCollection, []index{
			{name: messageIndex, named: true, keys: []string{"pipeline", "message_id", "source_table", "sink"}, unique: true},
			{name: laneIndex, named: true, keys: []string{"pipeline", "blocks", "sink", "message_group", "position", "message_id", "source_table", "state"}},
			{name: dueIndex, named: true, keys: []string{"pipeline", "sink", "next_attempt_at"}, partial: is("next_attempt_at", there)},
			{name: untriedIndex, named: true, keys: []string{"pipeline", "sink", "next_attempt_at"},
				partial: bson.D{{Key: "next_attempt_at", Value: bson.D{{Key: "$exists", Value: true}}}, {Key: "tries", Value: 0}}},
			{name: sentIndex, named: true, keys: []string{"pipeline", "sent_id"}, partial: is("sent_id", there)},
			{name: "unfinished", keys: []string{"pipeline"}, partial: is("unfinished", true)},
		}},
		{c.Schema, requestCollection, []index{
			{name: "open", keys: []string{"pipeline", "done_at", "_id"}},
			{name: "in_force", keys: []string{"pipeline"}, partial: is("in_force", there)},
		}},
	}
}

// outboxCollections are those that applications write to, where their shape is ours.
func (c *Config) outboxCollections() []collection {
	var list []collection
	for i := range c.Tables {
		t := &c.Tables[i]
		made := collection{database: t.Schema, name: t.Name}
		if t.Columns.ID != "_id" {
			made.indexes = append(made.indexes, index{name: "tailbox_id", keys: []string{t.Columns.ID}, unique: true})
		}
		switch {
		case t.Shape == "flowcatalyst" && t.Columns.Status != "" && len(t.Columns.Group) == 1 && t.Columns.CreatedAt != "":
			made.indexes = append(made.indexes, index{name: "idx_" + t.Name + "_status", keys: []string{t.Columns.Status, t.Columns.Group[0], t.Columns.CreatedAt}})
		case t.OnDelivered == outbox.Mark:
			column := t.Columns.Status
			if column == "" {
				column = t.Columns.DeliveredAt
			}
			made.indexes = append(made.indexes, index{name: "tailbox_pending", keys: []string{column, t.Columns.ID}})
		}
		if key := t.Columns.IdempotencyKey; t.Shape == "tailbox" && key != "" {
			made.indexes = append(made.indexes, index{name: "tailbox_idempotency_key", keys: []string{key}, unique: true,
				partial: bson.D{{Key: key, Value: bson.D{{Key: "$exists", Value: true}}}}})
		}
		list = append(list, made)
	}
	return list
}

func (x *index) keyDocument() bson.D {
	var d bson.D
	for _, k := range x.keys {
		d = append(d, bson.E{Key: k, Value: 1})
	}
	return d
}

func (x *index) model() mongo.IndexModel {
	opts := options.Index().SetName(x.name)
	if x.unique {
		opts.SetUnique(true)
	}
	if x.partial != nil {
		opts.SetPartialFilterExpression(x.partial)
	}
	return mongo.IndexModel{Keys: x.keyDocument(), Options: opts}
}

// Init creates what is missing of the relay's collections, the outbox collections whose shape is ours, and their indexes, and
// returns what it did ("created …", "updated …"). What is there is left alone, so a user without the right to create can run it after a migration did.
// It makes no checkpoint.
func (cfg Config) Init(ctx context.Context) (done []string, err error) {
	if cfg, err = cfg.resolved(); err != nil {
		return nil, err
	}
	client, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disconnect(ctx, client)) }()
	h, err := greet(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := h.usable(); err != nil {
		return nil, err
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		info, err := collectionInfo(ctx, client, t.Schema, t.Name)
		if err != nil {
			return nil, err
		}
		if info == nil && !ownShape(t.Shape) {
			return nil, fmt.Errorf("create collection %s: its shape %q belongs to its application: let that make it, or correct source.tables: %w",
				t, t.Shape, source.ErrStop)
		}
		if info == nil {
			if err := cfg.refuseName(ctx, client, t); err != nil {
				return nil, err
			}
			continue
		}
		if what, cure := info.neverFit(t); what != "" {
			return nil, fmt.Errorf("%w: nothing was created yet: %s: %s", source.ErrStop, what, cure)
		}
	}
	missing, err := cfg.migrate(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, c := range append(cfg.ownCollections(), cfg.outboxCollections()...) {
		made, err := c.create(ctx, client)
		if done = append(done, made...); err != nil {
			return done, err
		}
	}
	if missing != "" {
		if err := cfg.recorded(ctx, client); err != nil {
			return done, err
		}
		if !slices.Contains(done, "created collection "+cfg.Schema+"."+checkpointCollection) {
			done = append(done, "updated collections tailbox_*: "+missing)
		}
	}
	return done, nil
}

// refuseName refuses to create a collection that looks as if it were there under another name.
func (c *Config) refuseName(ctx context.Context, client *mongo.Client, t *outbox.Table) error {
	if c.CreateTables {
		return nil
	}
	names, err := client.Database(t.Schema).ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("look for collections like %s: %w", t, err)
	}
	if why := columns.Uncreated(t, names, c.Tables); why != "" {
		return fmt.Errorf("%w: nothing was created: %s", source.ErrStop, why)
	}
	return nil
}

// ownShape tells whether Init can make a collection of the shape.
func ownShape(shape string) bool {
	return shape == "debezium" || shape == "tailbox" || shape == "flowcatalyst"
}

// create makes the collection and its indexes where they are missing.
func (c *collection) create(ctx context.Context, client *mongo.Client) (done []string, err error) {
	info, err := collectionInfo(ctx, client, c.database, c.name)
	if err != nil {
		return nil, err
	}
	if info == nil {
		if err := client.Database(c.database).CreateCollection(ctx, c.name); err != nil && !hasCode(err, codeNamespaceExists) {
			return nil, fmt.Errorf("create collection %s: %w", c, initFault(err))
		}
		done = append(done, "created collection "+c.String())
	}
	missing, err := c.missingIndexes(ctx, client)
	if err != nil {
		return done, err
	}
	for _, x := range missing {
		if _, err := client.Database(c.database).Collection(c.name).Indexes().CreateOne(ctx, x.model()); err != nil {
			return done, fmt.Errorf("create index %s of %s: %w", x.name, c, initFault(err))
		}
		done = append(done, "created index "+x.name+" of "+c.String())
	}
	return done, nil
}

// missingIndexes compares the indexes that are there: one of the same name or, where no query names it, on the same fields will do.
func (c *collection) missingIndexes(ctx context.Context, client *mongo.Client) ([]index, error) {
	if len(c.indexes) == 0 {
		return nil, nil
	}
	specs, err := client.Database(c.database).Collection(c.name).Indexes().ListSpecifications(ctx)
	if err != nil {
		return nil, fault("list indexes of "+c.String(), err)
	}
	var missing []index
	for _, x := range c.indexes {
		found := false
		for _, spec := range specs {
			alike := !x.named && slices.Equal(keysOf(spec.KeysDocument), x.keys)
			found = found || spec.Name == x.name || alike
		}
		if !found {
			missing = append(missing, x)
		}
	}
	return missing, nil
}

// keysOf are the fields of an index.
func keysOf(doc bson.Raw) []string {
	var names []string
	e := elementsOf(doc)
	for {
		key, _, ok := e.next()
		if !ok {
			return names
		}
		names = append(names, string(key))
	}
}
