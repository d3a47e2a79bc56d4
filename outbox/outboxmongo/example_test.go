package outboxmongo_test

import (
	"context"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
)

// payOrder marks an order as paid and writes the message OrderPaid, or does neither.
func payOrder(ctx context.Context, client *mongo.Client, w *outboxmongo.Writer, order string) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		paid := bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: "paid"}}}}
		if _, err := client.Database("shop").Collection("orders").UpdateByID(ctx, order, paid); err != nil {
			return nil, err
		}
		return w.Write(ctx, outbox.Draft{Type: "OrderPaid", Topic: "orders", Group: "order:" + order, Payload: []byte(`{"order": "` + order + `"}`)})
	})
	return err
}

func Example() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URL")))
	if err != nil {
		panic(err)
	}
	defer client.Disconnect(ctx)
	table, err := outboxmongo.Table("tailbox", "outbox")
	if err != nil {
		panic(err)
	}
	w, err := outboxmongo.New(ctx, client.Database("shop"), table, outbox.Options{})
	if err != nil {
		panic(err)
	}
	if err := payOrder(ctx, client, w, "42"); err != nil {
		fmt.Println("the order is not paid:", err)
	}
}
