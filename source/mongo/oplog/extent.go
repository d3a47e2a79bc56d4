package oplog

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/source/mongo/conn"
)

// An Extent is what can be seen of the log of a replica set.
type Extent struct {
	First, Last   Time
	Size, MaxSize int64
}

// Window is how long ago the first entry was written, seen from the last one.
func (o *Extent) Window() time.Duration { return time.Duration(o.Last>>32-o.First>>32) * time.Second }

// Read looks at the oplog itself, which takes the right to read the database local.
func Read(ctx context.Context, client *mongo.Client) (*Extent, error) {
	o := &Extent{}
	var err error
	if o.First, err = First(ctx, client); err == nil {
		o.Last, err = end(ctx, client, -1)
	}
	if err != nil {
		return nil, fmt.Errorf("read the oplog: %w", err)
	}
	var stats struct {
		Size    int64 `bson:"size"`
		MaxSize int64 `bson:"maxSize"`
	}
	if err := client.Database("local").RunCommand(ctx, bson.D{{Key: "collStats", Value: "oplog.rs"}}).Decode(&stats); err != nil {
		return nil, fmt.Errorf("read the oplog's size: %w", err)
	}
	o.Size, o.MaxSize = stats.Size, stats.MaxSize
	return o, nil
}

// First is the time of the oplog's first entry.
func First(ctx context.Context, client *mongo.Client) (Time, error) {
	return end(ctx, client, 1)
}

// end is the time of the oplog's first (order 1) or last (-1) entry.
func end(ctx context.Context, client *mongo.Client, order int) (Time, error) {
	var entry struct {
		TS bson.Timestamp `bson:"ts"`
	}
	err := client.Database("local").Collection("oplog.rs").FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "$natural", Value: order}}).
		SetProjection(bson.D{{Key: "ts", Value: 1}})).Decode(&entry)
	return TimeOf(entry.TS.T, entry.TS.I), err
}

// Now is the end of the log, as the primary knows it.
func Now(ctx context.Context, client *mongo.Client) (Time, error) {
	var reply struct {
		OperationTime bson.Timestamp `bson:"operationTime"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Decode(&reply); err != nil {
		return 0, conn.Fault("ask for the server's time", err)
	}
	return TimeOf(reply.OperationTime.T, reply.OperationTime.I), nil
}
