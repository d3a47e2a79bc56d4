package store

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// userTables are the outbox collections of the configuration. Their methods read documents; only attempts and the cleaner write them.
type userTables struct {
	client *mongo.Client
	cfg    *conn.Config
}

// named finds a table; nil if it has left the configuration.
func (ts userTables) named(name string) *outbox.Table { return ts.cfg.TableNamed(name) }

// configured are the tables of the configuration.
func (ts userTables) configured() []*outbox.Table {
	all := make([]*outbox.Table, len(ts.cfg.Tables))
	for i := range ts.cfg.Tables {
		all[i] = &ts.cfg.Tables[i]
	}
	return all
}

// collection is the collection of a table.
func (ts userTables) collection(t *outbox.Table) *mongo.Collection {
	return ts.client.Database(t.Schema).Collection(t.Name)
}

// business is a collection in the database of the table.
func (ts userTables) business(table, name string) *mongo.Collection {
	if t := ts.named(table); t != nil {
		return ts.client.Database(t.Schema).Collection(name)
	}
	return ts.client.Database(ts.cfg.Schema).Collection(name)
}

// A pendingID is the id of a pending document, as it is and as text.
type pendingID struct {
	raw  bson.RawValue
	text string
}

// after is the id as it stands in a cursor: its type, and its bytes.
func (id *pendingID) after() []byte { return append([]byte{byte(id.raw.Type)}, id.raw.Value...) }

// behindCursor adds the condition for documents behind a cursor.
func behindCursor(where bson.D, t *outbox.Table, at *store.Cursor) bson.D {
	if len(at.After) == 0 {
		return where
	}
	after := bson.RawValue{Type: bson.Type(at.After[0]), Value: at.After[1:]}
	return append(where, bson.E{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$" + t.Columns.ID, document.Literal(after)}}}})
}

// pendingIDs reads a window of pending documents, in the order of ids. Ids of all types are compared.
func (ts userTables) pendingIDs(ctx context.Context, t *outbox.Table, at *store.Cursor) ([]pendingID, error) {
	where := behindCursor(catalog.PendingOurs(t), t, at)
	fields := bson.D{{Key: t.Columns.ID, Value: 1}}
	if t.Columns.ID != "_id" {
		fields = append(fields, bson.E{Key: "_id", Value: 0})
	}
	cur, err := ts.collection(t).Find(ctx, where, options.Find().SetSort(bson.D{{Key: t.Columns.ID, Value: 1}}).SetLimit(pendingWindow).SetProjection(fields))
	if err != nil {
		return nil, conn.Fault("list pending documents of "+t.String(), err)
	}
	defer func() { _ = cur.Close(ctx) }() // it was read to its end, or the session goes
	var ids []pendingID
	dec := document.Decoder{}
	for cur.Next(ctx) {
		v := document.Field(cur.Current, t.Columns.ID)
		text, err := dec.IDText(v)
		if err != nil {
			text = nil // the log stops at such a document; here it is passed over
		}
		raw := windowEnd(v)
		ids = append(ids, pendingID{raw, string(text)})
	}
	return ids, conn.Fault("list pending documents of "+t.String(), cur.Err())
}

// windowEnd returns the id behind which the next window of documents begins. Documents whose id is missing or null sort before all others. No query finds
// a document by such an id, so the window passes all of them.
func windowEnd(id document.Value) bson.RawValue {
	if id.Type == 0 {
		return bson.RawValue{Type: bson.TypeNull}
	}
	raw := id.RawValue()
	raw.Value = slices.Clone(raw.Value)
	return raw
}
