package hostile

import (
	"context"
	"encoding/json"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/test/e2e"
)

type mongoTable struct{ bed *e2e.Bed }

func (t *mongoTable) options() e2e.Options {
	return e2e.Options{Kind: "mongodb", Tables: "\n    - {name: events, shape: tailbox}\n"}
}

func (t *mongoTable) open(_ testing.TB, b *e2e.Bed) { t.bed = b }

// insert writes headers as a document where they can be one, else as text.
func (t *mongoTable) insert(ctx context.Context, row *Row) error {
	doc := bson.D{{Key: "_id", Value: row.Text["id"]}, {Key: "payload", Value: row.Payload}, {Key: "status", Value: "pending"}}
	for _, field := range [][2]string{{"type", "type"}, {"topic", "topic"}, {"group", "message_group"}, {"key", "key"}, {"tenant", "tenant"}} {
		if text := row.column(field[0]); text != nil {
			doc = append(doc, bson.E{Key: field[1], Value: text})
		}
	}
	if row.Headers != nil {
		var members map[string]any
		if err := json.Unmarshal(row.Headers, &members); err == nil && members != nil {
			doc = append(doc, bson.E{Key: "headers", Value: members})
		} else {
			doc = append(doc, bson.E{Key: "headers", Value: string(row.Headers)})
		}
	}
	_, err := t.bed.Collection("events").InsertOne(ctx, doc)
	return err
}

func (t *mongoTable) parked(ctx context.Context) ([]parked, error) {
	cur, err := t.bed.Collection("tailbox_parked").Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "message_id", Value: 1},
		{Key: "message_group", Value: 1}, {Key: "state", Value: 1}, {Key: "error_class", Value: 1}, {Key: "last_error", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var docs []struct {
		ID     string `bson:"message_id"`
		Group  string `bson:"message_group"`
		State  string `bson:"state"`
		Class  string `bson:"error_class"`
		Reason string `bson:"last_error"`
	}
	if err := cur.All(ctx, &docs); err != nil {
		return nil, err
	}
	list := make([]parked, len(docs))
	for i, d := range docs {
		list[i] = parked{d.ID, d.Group, d.State, d.Class, d.Reason}
	}
	return list, nil
}
