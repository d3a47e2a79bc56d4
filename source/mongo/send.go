package mongo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
)

// Send writes one message, as an application would, and returns its id, which is a new ObjectID. Values are by column: texts are
// written as strings, other bytes as binary, and the headers, a JSON object, as a document.
func Send(ctx context.Context, cfg Config, t *outbox.Table, values map[string][]byte) (id string, err error) {
	if cfg, err = cfg.resolved(); err != nil {
		return "", err
	}
	client, err := cfg.connect()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, disconnect(ctx, client)) }()
	database, words := t.Schema, t.Words
	if database == "" {
		database = cfg.Schema
	}
	if words.Pending == "" {
		words = outbox.DefaultWords
	}
	oid := bson.NewObjectID()
	doc := bson.D{{Key: t.Columns.ID, Value: oid}}
	if t.Columns.Status != "" {
		doc = append(doc, bson.E{Key: t.Columns.Status, Value: words.Pending})
	}
	if t.Columns.CreatedAt != "" {
		doc = append(doc, bson.E{Key: t.Columns.CreatedAt, Value: time.Now()})
	}
	for _, column := range slices.Sorted(maps.Keys(values)) {
		v, err := sent(t, column, values[column])
		if err != nil {
			return "", err
		}
		doc = append(doc, bson.E{Key: column, Value: v})
	}
	if _, err := client.Database(database).Collection(t.Name).InsertOne(ctx, doc); err != nil {
		return "", fault("write to collection "+database+"."+t.Name, err)
	}
	return oid.Hex(), nil
}

func sent(t *outbox.Table, column string, value []byte) (any, error) {
	if column == t.Columns.Headers {
		var headers bson.D
		if err := bson.UnmarshalExtJSON(value, false, &headers); err != nil {
			return nil, fmt.Errorf("write headers: %w", err)
		}
		return headers, nil
	}
	if utf8.Valid(value) {
		return string(value), nil
	}
	return value, nil
}
