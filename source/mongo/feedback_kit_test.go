package mongo_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sourcetest"
)

// makeTold makes the business collection with a validator that takes nothing.
func makeTold(ctx context.Context, d *kitDatabase) error {
	return d.client.Database(d.cfg.Schema).CreateCollection(ctx, "told",
		options.CreateCollection().SetValidator(bson.D{{Key: "_id", Value: bson.D{{Key: "$exists", Value: false}}}}))
}

func kitBusiness() *sourcetest.Business {
	const delivery = `{"collection": "told", "upsert": true, "filter": {"_id": ":id", "ours": true}, "update": {"$push": {"lines": {
		"outcome": ":outcome", "n": ":type:int", "sink": ":sink", "attempt": ":attempt", "why": ":error"}}}}`
	return &sourcetest.Business{
		Feedback: outbox.Feedback{outbox.OutcomeRetrying: delivery, outbox.OutcomeDead: delivery,
			outbox.OutcomeDelivered: `{"collection": "told", "upsert": true, "filter": {"_id": ":id", "ours": true}, "update": {"$push": {"lines": {
				"outcome": ":outcome", "n": ":type:int", "sink": "", "attempt": 0, "why": ":receipt"}}}}`},
		// Without the table, a validator refuses everything.
		Make: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.client.Database(d.cfg.Schema).RunCommand(ctx, bson.D{{Key: "collMod", Value: "told"}, {Key: "validator", Value: bson.D{}}}).Err()
		},
		Lock: func(ctx context.Context, c sourcetest.Conn, id string) error {
			conn := c.(*kitConn)
			_, err := conn.d.collection("told").UpdateOne(mongo.NewSessionContext(ctx, conn.session), bson.D{{Key: "_id", Value: id}},
				bson.D{{Key: "$set", Value: bson.D{{Key: "locked", Value: true}}}}, options.UpdateOne().SetUpsert(true))
			return err
		},
		Told: func(ctx context.Context, db sourcetest.Database) (all []string, err error) {
			cur, err := db.(*kitDatabase).collection("told").Find(ctx, bson.D{})
			if err != nil {
				return nil, err
			}
			var docs []struct {
				ID    string `bson:"_id"`
				Lines []struct {
					Outcome, Sink, Why string
					N, Attempt         int
				}
			}
			if err := cur.All(ctx, &docs); err != nil {
				return nil, err
			}
			for _, d := range docs {
				for i, l := range d.Lines {
					all = append(all, fmt.Sprintf("%s %s %d %s %d %s%*s", d.ID, l.Outcome, l.N, l.Sink, l.Attempt, l.Why, i, ""))
				}
			}
			return all, nil
		},
	}
}
