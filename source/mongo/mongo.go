// Package mongo is everything the relay knows about MongoDB 5.0 and later, as a replica set or a sharded cluster: the change
// stream and its decoder, the check of what must be set, and the store of the relay's state.
//
// A collection of the outbox is called a table here, and its fields columns, as everywhere in the relay.
package mongo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Config is what source, store and setup need to know. All of them share one.
type Config struct {
	// Pipeline names the lease and the documents of tailbox_*.
	Pipeline string
	// URL is a mongodb:// or mongodb+srv:// connection string.
	URL string
	// Schema is the database that holds the collections tailbox_*, and tables without one of their own; "" is the database
	// that URL names.
	Schema string
	// Start is "pending", "now" or "": how the first position judges documents in tables without a status column.
	Start string
	// Tables in configured order. At least one. A table's Schema may be "" = the database of tailbox_*.
	Tables []outbox.Table
	// CreateTables: Init creates missing outbox tables also if they look as if they were there under another name.
	CreateTables bool
	// MaxMessage bounds one message, in bytes; larger documents get outbox.FaultTooLarge and are not held in memory.
	MaxMessage int
	// Feedback, if not nil, counts the updates of feedback that were done about a table's outcome, or failed.
	Feedback func(table, outcome string, n int, why error)
	// Logger may be nil.
	Logger *slog.Logger
}

// defaultMaxMessage applies where the configuration has no max_message.
const defaultMaxMessage = 16 << 20

// Versions of the wire protocol by which servers tell what they can.
const (
	wireVersion50 = 13
	wireVersion80 = 25
)

// resolved is the configuration with its defaults, and every table with a database. The error matches source.ErrStop.
func (c Config) resolved() (Config, error) {
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Schema == "" {
		uri, err := connstring.Parse(c.URL)
		if err != nil {
			return c, fmt.Errorf("%w: read source.url: %w", source.ErrStop, unreadable(err))
		}
		if c.Schema = uri.Database; c.Schema == "" {
			return c, fmt.Errorf("%w: source.url names no database: write mongodb://host/database, or set source.schema", source.ErrStop)
		}
	}
	tables := make([]outbox.Table, len(c.Tables))
	for i, t := range c.Tables {
		if t.Schema == "" {
			t.Schema = c.Schema
		}
		if t.Words == (outbox.Words{}) {
			t.Words = outbox.DefaultWords()
		}
		tables[i] = t
	}
	c.Tables = tables
	if len(tables) == 0 {
		return c, fmt.Errorf("%w: source.tables is empty", source.ErrStop)
	}
	return c, nil
}

// Database is where the collections tailbox_* are, and tables without a database of their own. The error matches source.ErrStop.
func (c Config) Database() (string, error) {
	c, err := c.resolved()
	return c.Schema, err
}

// ValidURL tells what is wrong with a connection string, without showing it: it may hold a password. Schema as in Config.
func ValidURL(url, schema string) error {
	if !strings.HasPrefix(url, "mongodb://") && !strings.HasPrefix(url, "mongodb+srv://") {
		return errors.New("is no connection string of MongoDB: it begins with mongodb:// or mongodb+srv://")
	}
	if strings.HasPrefix(url, "mongodb+srv://") {
		return nil // what is in it is only known once names are looked up
	}
	uri, err := connstring.Parse(url)
	switch {
	case err != nil:
		return unreadable(err)
	case uri.Database == "" && schema == "":
		return errors.New("names no database: write mongodb://host/database, or set source.schema")
	}
	return nil
}

// unreadable says what is wrong with a connection string that the driver cannot read, without the driver's words, which may show a password.
func unreadable(err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok { // of mongodb+srv
		return fmt.Errorf("look up the servers: %w", lookup)
	}
	return errors.New("is no connection string of MongoDB: want mongodb://user:password@host:27017/database?replicaSet=rs0, with what is special in user and password written as %XX")
}

// serverSelection is how long a server is looked for that can be written to, such as after an election.
const serverSelection = 10 * time.Second

// connect makes a client whose reads and writes are those of a majority, at the primary. What the connection string says about
// concerns and time limits does not count: a limit on each operation would cut change streams off.
func (c *Config) connect() (*mongo.Client, error) {
	opts := options.Client().ApplyURI(c.URL).SetAppName("tailbox " + c.Pipeline).SetReadConcern(readconcern.Majority()).
		SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()).SetServerSelectionTimeout(serverSelection)
	opts.Timeout = nil
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: read source.url: %w", source.ErrStop, err)
	}
	return client, nil
}

// disconnect ends a client, also after its context's end.
func disconnect(ctx context.Context, client *mongo.Client) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := client.Disconnect(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// A hello is what a server says about itself.
type hello struct {
	SetName   string    `bson:"setName"`
	Msg       string    `bson:"msg"`
	Wire      int       `bson:"maxWireVersion"`
	LocalTime time.Time `bson:"localTime"`
	Primary   bool      `bson:"isWritablePrimary"`
	Me        string    `bson:"me"`
	Sessions  int       `bson:"logicalSessionTimeoutMinutes"`
}

// sharded tells whether the server is a router of a sharded cluster.
func (h *hello) sharded() bool { return h.Msg == "isdbgrid" }

// usable is an error, which matches source.ErrStop, for servers that the relay cannot work with.
func (h *hello) usable() error {
	switch {
	case h.SetName == "" && !h.sharded():
		return fmt.Errorf("%w: the server is a standalone one, which has neither change streams nor transactions: start mongod with "+
			"--replSet rs0, and run rs.initiate() once (a replica set may have one member)", source.ErrStop)
	case h.Wire < wireVersion50:
		return fmt.Errorf("%w: the server is older than MongoDB 5.0: upgrade it", source.ErrStop)
	}
	return nil
}

// greet asks the primary, or a router, what it is.
func greet(ctx context.Context, client *mongo.Client) (*hello, error) {
	h := &hello{}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(h); err != nil {
		return nil, fmt.Errorf("ask the server what it is: %w", err)
	}
	return h, nil
}

// tableNamed finds a configured table.
func (c *Config) tableNamed(name string) *outbox.Table {
	for i := range c.Tables {
		if c.Tables[i].String() == name {
			return &c.Tables[i]
		}
	}
	return nil
}
