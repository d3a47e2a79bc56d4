// Package catalog knows collections: those of the relay and those of the outbox, with the indexes they should have, what the server
// says of them, which migrations were run, and by which conditions a document of the outbox is pending.
package catalog

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
)

// Names of indexes that queries name.
const (
	MessageIndex = "message"
	LaneIndex    = "lane"
	DueIndex     = "due"
	UntriedIndex = "untried"
	SentIndex    = "sent"
	DeadIndex    = "dead"
)

// An Index is one that Init makes.
type Index struct {
	Name    string
	Keys    []string
	Unique  bool
	Partial bson.D
	Named   bool // queries name it
}

// A Collection is one that Init makes, with its indexes.
type Collection struct {
	Database, Name string
	Indexes        []Index
}

// String is its name with that of its database.
func (c *Collection) String() string { return c.Database + "." + c.Name }

// Own are the relay's own. In tailbox_parked, lane leads to a lane's deliveries in order, blocking and other ones
// apart; due has one entry a lane, untried one for each whose first delivery was never tried: a probe finds these however many others are due. dead
// has dead letters alone, in the order in which they died, and all that a summary of them reads: state is in it so that no document has to be read.
func Own(cfg *conn.Config) []Collection {
	is := func(field string, v any) bson.D { return bson.D{{Key: field, Value: v}} }
	there := is("$exists", true)
	return []Collection{
		{cfg.Schema, Checkpoints, nil},
		{cfg.Schema, Parked, []Index{
			{Name: MessageIndex, Named: true, Keys: []string{"pipeline", "message_id", "source_table", "sink"}, Unique: true},
			{Name: LaneIndex, Named: true, Keys: []string{"pipeline", "blocks", "sink", "message_group", "position", "message_id", "source_table", "state"}},
			{Name: DueIndex, Named: true, Keys: []string{"pipeline", "sink", "next_attempt_at"}, Partial: is("next_attempt_at", there)},
			{Name: UntriedIndex, Named: true, Keys: []string{"pipeline", "sink", "next_attempt_at"},
				Partial: bson.D{{Key: "next_attempt_at", Value: bson.D{{Key: "$exists", Value: true}}}, {Key: "tries", Value: 0}}},
			{Name: SentIndex, Named: true, Keys: []string{"pipeline", "sent_id"}, Partial: is("sent_id", there)},
			{Name: DeadIndex, Named: true, Keys: []string{"pipeline", "state", "changed_at", "message_id", "source_table", "sink", "error_class", "type"}, Partial: is("state", "dead")},
			{Name: "unfinished", Keys: []string{"pipeline"}, Partial: is("unfinished", true)},
		}},
		{cfg.Schema, Requests, []Index{
			{Name: "open", Keys: []string{"pipeline", "done_at", "_id"}},
			{Name: "in_force", Keys: []string{"pipeline"}, Partial: is("in_force", there)},
		}},
	}
}

// Outbox are those that applications write to, where their shape is ours.
func Outbox(cfg *conn.Config) []Collection {
	var list []Collection
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		made := Collection{Database: t.Schema, Name: t.Name}
		if t.Columns.ID != "_id" {
			made.Indexes = append(made.Indexes, Index{Name: "tailbox_id", Keys: []string{t.Columns.ID}, Unique: true})
		}
		switch {
		case t.Shape == "flowcatalyst" && t.Columns.Status != "" && len(t.Columns.Group) == 1 && t.Columns.CreatedAt != "":
			made.Indexes = append(made.Indexes, Index{Name: "idx_" + t.Name + "_status", Keys: []string{t.Columns.Status, t.Columns.Group[0], t.Columns.CreatedAt}})
		case t.OnDelivered == outbox.Mark:
			column := t.Columns.Status
			if column == "" {
				column = t.Columns.DeliveredAt
			}
			made.Indexes = append(made.Indexes, Index{Name: "tailbox_pending", Keys: []string{column, t.Columns.ID}})
		}
		if key := t.Columns.IdempotencyKey; t.Shape == "tailbox" && key != "" {
			made.Indexes = append(made.Indexes, Index{Name: "tailbox_idempotency_key", Keys: []string{key}, Unique: true,
				Partial: bson.D{{Key: key, Value: bson.D{{Key: "$exists", Value: true}}}}})
		}
		list = append(list, made)
	}
	return list
}

// KeyDocument are the keys as a command takes them.
func (x *Index) KeyDocument() bson.D {
	var d bson.D
	for _, k := range x.Keys {
		d = append(d, bson.E{Key: k, Value: 1})
	}
	return d
}

// Model is the index as the driver makes it.
func (x *Index) Model() mongo.IndexModel {
	opts := options.Index().SetName(x.Name)
	if x.Unique {
		opts.SetUnique(true)
	}
	if x.Partial != nil {
		opts.SetPartialFilterExpression(x.Partial)
	}
	return mongo.IndexModel{Keys: x.KeyDocument(), Options: opts}
}

// MissingIndexes compares the indexes that are there: one of the same name or, where no query names it, on the same fields will do.
func (c *Collection) MissingIndexes(ctx context.Context, client *mongo.Client) ([]Index, error) {
	if len(c.Indexes) == 0 {
		return nil, nil
	}
	specs, err := client.Database(c.Database).Collection(c.Name).Indexes().ListSpecifications(ctx)
	if err != nil {
		return nil, conn.Fault("list indexes of "+c.String(), err)
	}
	var missing []Index
	for _, x := range c.Indexes {
		found := false
		for _, spec := range specs {
			alike := !x.Named && slices.Equal(keysOf(spec.KeysDocument), x.Keys)
			found = found || spec.Name == x.Name || alike
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
	e := document.ElementsOf(doc)
	for {
		key, _, ok := e.Next()
		if !ok {
			return names
		}
		names = append(names, string(key))
	}
}

// The relay's own collections.
const (
	Checkpoints = "tailbox_checkpoint"
	Parked      = "tailbox_parked"
	Requests    = "tailbox_request"
)
