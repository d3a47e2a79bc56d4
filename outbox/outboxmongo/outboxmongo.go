// Package outboxmongo writes messages to an outbox collection of MongoDB, in the transaction of the business change:
//
//	w, err := outboxmongo.New(ctx, client.Database("shop"), table, outbox.Options{}) // once, at the start
//	…
//	session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
//		…
//		return w.Write(ctx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: payload})
//	})
//
// A collection is called a table here, and its fields columns, as everywhere in tailbox.
package outboxmongo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
)

// Table is a table of a shape by its name, which may begin with a database and a dot. Its id is _id, and it has no sequence.
func Table(shape, name string) (outbox.Table, error) {
	t, err := outbox.NewTable(shape, name)
	if s, ok := outbox.ShapeNamed(shape); ok {
		t.Columns = s.AsDocuments().Columns
	}
	return t, err
}

// A Writer writes to one table. It may be used concurrently, with a session each.
type Writer struct {
	table      outbox.Table
	collection *mongo.Collection
	options    outbox.Options
	// keyed: a unique index has the idempotency key.
	keyed bool
}

// codeNoNamespace is the server's answer for a collection that does not exist.
const codeNoNamespace = 26

// New makes a writer for a table, whose indexes it looks up where the table has idempotency keys. The table lies in db, unless it
// names another database. Options.Savepoint and DeleteAtOnce have no meaning here, and are refused.
func New(ctx context.Context, db *mongo.Database, t outbox.Table, o outbox.Options) (*Writer, error) {
	if t.Words == (outbox.Words{}) {
		t.Words = outbox.DefaultWords()
	}
	if t.Columns.ID == "" || t.Columns.Payload == "" {
		return nil, fmt.Errorf("write to table %s: name the columns of id and payload in the table's Columns", t.Name)
	}
	if o.Savepoint || o.DeleteAtOnce {
		return nil, fmt.Errorf("write to table %s: MongoDB has no savepoints, and documents that are deleted at once are not supported: leave Savepoint and DeleteAtOnce unset", t.Name)
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = outbox.DefaultMaxMessage
	}
	if t.Schema != "" {
		db = db.Client().Database(t.Schema)
	}
	w := &Writer{table: t, collection: db.Collection(t.Name), options: o}
	if t.Columns.IdempotencyKey == "" {
		return w, nil
	}
	specs, err := w.collection.Indexes().ListSpecifications(ctx)
	if answer, ok := errors.AsType[mongo.ServerError](err); ok && answer.HasErrorCode(codeNoNamespace) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up the indexes of collection %s: %w", t.Name, err)
	}
	for _, s := range specs {
		var keys bson.D
		if err := bson.Unmarshal(s.KeysDocument, &keys); err != nil {
			return nil, fmt.Errorf("look up the indexes of collection %s: %w", t.Name, err)
		}
		w.keyed = w.keyed || s.Unique != nil && *s.Unique && len(keys) == 1 && keys[0].Key == t.Columns.IdempotencyKey
	}
	return w, nil
}

// Write writes a message in the transaction of the context's session, and returns its id. A *outbox.DraftError says what the
// message cannot be written for, and a *outbox.DuplicateError that it was written before (unless Draft.Once): after both, the
// transaction can go on, with nothing written. Any other error has ended it; where it is a conflict with another transaction,
// WithTransaction begins anew.
func (w *Writer) Write(ctx context.Context, d outbox.Draft) (id string, err error) {
	written, err := w.WriteAll(ctx, []outbox.Draft{d})
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// WriteAll writes messages in their order, all of them or, with an error as of Write, none.
func (w *Writer) WriteAll(ctx context.Context, drafts []outbox.Draft) ([]outbox.Written, error) {
	// That the session has a transaction begun, the driver does not tell.
	if mongo.SessionFromContext(ctx) == nil {
		return nil, fmt.Errorf("write to table %s: %w", w.table.Name, outbox.ErrNoTransaction)
	}
	docs := make([]*document, len(drafts))
	for i := range drafts {
		var err error
		if docs[i], err = w.document(&drafts[i]); err != nil {
			if wrong, ok := errors.AsType[*outbox.DraftError](err); ok {
				wrong.Index = i
			}
			return nil, err
		}
	}
	written, insert, err := w.place(ctx, docs)
	if err != nil || len(insert) == 0 {
		return written, err
	}
	if _, err := w.collection.InsertMany(ctx, insert); err != nil {
		return nil, fmt.Errorf("write to table %s: %w", w.table.Name, err)
	}
	return written, nil
}

// place tells duplicates from documents to insert. A transaction sees one state of the database, so what is not found is not there,
// unless another transaction writes it meanwhile: then the insert is a conflict, and the transaction is done again.
func (w *Writer) place(ctx context.Context, docs []*document) (written []outbox.Written, insert []bson.Raw, err error) {
	there, err := w.there(ctx, docs)
	if err != nil {
		return nil, nil, err
	}
	for i, d := range docs {
		id, dup := there[lookup{w.table.Columns.IdempotencyKey, d.key}]
		if dup && d.key != "" {
			if !d.once {
				return nil, nil, w.duplicate(w.table.Columns.IdempotencyKey, d.key, id, i)
			}
			written = append(written, outbox.Written{ID: id, Duplicate: true})
			continue
		}
		if id, dup := there[lookup{w.table.Columns.ID, d.id}]; dup {
			return nil, nil, w.duplicate(w.table.Columns.ID, d.id, id, i)
		}
		there[lookup{w.table.Columns.ID, d.id}] = d.id
		if d.key != "" && w.keyed {
			there[lookup{w.table.Columns.IdempotencyKey, d.key}] = d.id
		}
		written, insert = append(written, outbox.Written{ID: d.id}), append(insert, d.raw)
	}
	return written, insert, nil
}

func (w *Writer) duplicate(column, value, first string, index int) error {
	return &outbox.DuplicateError{Table: strings.TrimPrefix(w.table.String(), "."), Column: column, Value: value, First: first, Index: index}
}

// A lookup is what a document is looked for by.
type lookup struct{ column, value string }

// there finds the documents that have the key or the id of one that is to be written.
func (w *Writer) there(ctx context.Context, docs []*document) (map[lookup]string, error) {
	c := &w.table.Columns
	var keys, ids bson.A
	for _, d := range docs {
		if d.key != "" && w.keyed {
			keys = append(keys, d.key)
		}
		if d.given {
			ids = append(ids, d.id)
		}
	}
	var any bson.A
	if len(keys) > 0 {
		any = append(any, bson.D{{Key: c.IdempotencyKey, Value: bson.D{{Key: "$in", Value: keys}}}})
	}
	if len(ids) > 0 {
		any = append(any, bson.D{{Key: c.ID, Value: bson.D{{Key: "$in", Value: ids}}}})
	}
	there := map[lookup]string{}
	if len(any) == 0 {
		return there, nil
	}
	projection := bson.D{{Key: c.ID, Value: 1}}
	if c.IdempotencyKey != "" {
		projection = append(projection, bson.E{Key: c.IdempotencyKey, Value: 1})
	}
	found, err := w.collection.Find(ctx, bson.D{{Key: "$or", Value: any}}, options.Find().SetProjection(projection))
	if err != nil {
		return nil, fmt.Errorf("look for duplicates in table %s: %w", w.table.Name, err)
	}
	var list []bson.Raw
	if err := found.All(ctx, &list); err != nil {
		return nil, fmt.Errorf("look for duplicates in table %s: %w", w.table.Name, err)
	}
	for _, doc := range list {
		id := idText(doc.Lookup(c.ID))
		there[lookup{c.ID, id}] = id
		if c.IdempotencyKey != "" {
			if key, ok := doc.Lookup(c.IdempotencyKey).StringValueOK(); ok {
				there[lookup{c.IdempotencyKey, key}] = id
			}
		}
	}
	return there, nil
}
