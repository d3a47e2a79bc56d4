package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/tailbox/tailbox/source"
)

// serverSelection is how long a server is looked for that can be written to, such as after an election.
const serverSelection = 10 * time.Second

// Connect makes a client whose reads and writes are those of a majority, at the primary. What the connection string says about
// concerns and time limits does not count: a limit on each operation would cut change streams off.
func (c *Config) Connect() (*mongo.Client, error) {
	opts := options.Client().ApplyURI(c.URL).SetAppName("tailbox " + c.Pipeline).SetReadConcern(readconcern.Majority()).
		SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()).SetServerSelectionTimeout(serverSelection)
	opts.Timeout = nil
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: read source.url: %w", source.ErrStop, err)
	}
	return client, nil
}

// Disconnect ends a client, also after its context's end.
func Disconnect(ctx context.Context, client *mongo.Client) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := client.Disconnect(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// Versions of the wire protocol by which servers tell what they can.
const (
	WireVersion50 = 13
	WireVersion80 = 25
)

// A Hello is what a server says about itself.
type Hello struct {
	SetName   string    `bson:"setName"`
	Msg       string    `bson:"msg"`
	Wire      int       `bson:"maxWireVersion"`
	LocalTime time.Time `bson:"localTime"`
	Primary   bool      `bson:"isWritablePrimary"`
	Me        string    `bson:"me"`
	Sessions  int       `bson:"logicalSessionTimeoutMinutes"`
}

// Sharded reports whether the server is a router of a sharded cluster.
func (h *Hello) Sharded() bool { return h.Msg == "isdbgrid" }

// Usable is an error, which matches source.ErrStop, for servers that the relay cannot work with.
func (h *Hello) Usable() error {
	switch {
	case h.SetName == "" && !h.Sharded():
		return fmt.Errorf("%w: the server is a standalone one, which has neither change streams nor transactions: start mongod with "+
			"--replSet rs0, and run rs.initiate() once (a replica set may have one member)", source.ErrStop)
	case h.Wire < WireVersion50:
		return fmt.Errorf("%w: the server is older than MongoDB 5.0: upgrade it", source.ErrStop)
	}
	return nil
}

// Greet asks the primary, or a router, what it is.
func Greet(ctx context.Context, client *mongo.Client) (*Hello, error) {
	h := &Hello{}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(h); err != nil {
		return nil, Fault("ask the server what it is", err)
	}
	return h, nil
}

// Now is the server's time.
func Now(ctx context.Context, client *mongo.Client) (time.Time, error) {
	h, err := Greet(ctx, client)
	if err != nil {
		return time.Time{}, err
	}
	return h.LocalTime.UTC(), nil
}
