package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/tailbox/tailbox/test/servers"
)

// mongoDB is a database of MongoDB. It reads and writes as a majority does, so that what it has seen outlives a crash.
type mongoDB struct {
	*Bed
	client *mongo.Client
	begins bson.Timestamp // of the truth
}

func newMongo(b *Bed, o *Options) *mongoDB {
	if o.Own {
		b.Mongo = servers.Mongo(b.tb, o.MongoSettings...)
	} else {
		b.Mongo = servers.SharedMongo(b.tb)
	}
	b.DB = b.Mongo.NewDatabase(b.tb)
	m := &mongoDB{Bed: b}
	m.connect()
	for _, name := range []string{"outbox", "events"} {
		if err := m.collection(name).Database().CreateCollection(b.context(), name); err != nil {
			b.tb.Fatal(err)
		}
	}
	var err error
	if m.begins, err = m.note(b.context()); err != nil {
		b.tb.Fatal(err)
	}
	return m
}

// connect makes a client of the server that the bed has now.
func (m *mongoDB) connect() {
	m.tb.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(m.Mongo.URL()).SetServerSelectionTimeout(5 * time.Second).
		SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		m.tb.Fatal(err)
	}
	m.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // of a server that may be gone
	})
	m.client = client
}

// Collection is a collection of a bed whose database is MongoDB.
func (b *Bed) Collection(name string) *mongo.Collection {
	return b.database.(*mongoDB).collection(name)
}

func (m *mongoDB) collection(name string) *mongo.Collection {
	return m.client.Database(m.DB).Collection(name)
}

// note writes a note into the oplog, and returns its time: everything before it was committed before.
func (m *mongoDB) note(ctx context.Context) (bson.Timestamp, error) {
	var reply struct {
		OperationTime bson.Timestamp `bson:"operationTime"`
	}
	err := m.client.Database("admin").RunCommand(ctx, bson.D{{Key: "appendOplogNote", Value: 1}, {Key: "data", Value: bson.D{}},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}}).Decode(&reply)
	if err != nil {
		return bson.Timestamp{}, fmt.Errorf("write a note into the oplog: %w", err)
	}
	return reply.OperationTime, nil
}

func (m *mongoDB) url() string      { return m.Mongo.URL() }
func (m *mongoDB) source() []string { return []string{"schema: " + m.DB} }
func (m *mongoDB) kill() error      { return m.Mongo.Kill() }
func (m *mongoDB) start() error     { return m.Mongo.Start() }

// away: the driver finds no server, or lost it while it waited for an answer.
func (m *mongoDB) away(err error) bool {
	var server mongo.ServerError
	if mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		return true
	}
	if errors.As(err, &server) {
		// Shutting down, no primary yet, and a transaction that the server had before it was killed.
		for _, code := range []int{91, 189, 10107, 11600, 11602, 13436, 251} {
			if server.HasErrorCode(code) {
				return true
			}
		}
		return false
	}
	return true // the driver's own
}

func (m *mongoDB) confirmedEarly(context.Context) (string, error) { return "", nil } // nothing is confirmed

// pending implements database. A change stream shows what a majority has, as these reads do. A row may be parked between the
// two, so rows are looked at first.
func (m *mongoDB) pending(ctx context.Context) ([]int64, error) {
	var ids []int64
	for _, ask := range []struct {
		collection, field string
		filter            bson.D
	}{
		{"outbox", "_id", bson.D{}},
		{"events", "_id", bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "delivered"}}}}},
		{"tailbox_parked", "message_id", bson.D{{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{"retrying", "waiting", "dead"}}}}}},
	} {
		cur, err := m.collection(ask.collection).Find(ctx, ask.filter, options.Find().SetProjection(bson.D{{Key: ask.field, Value: 1}}))
		if err != nil {
			return nil, fmt.Errorf("list pending messages: %w", err)
		}
		var found []bson.M
		if err := cur.All(ctx, &found); err != nil {
			return nil, fmt.Errorf("list pending messages: %w", err)
		}
		for _, d := range found {
			id, ok := d[ask.field].(int64)
			if text, is := d[ask.field].(string); is {
				id, err = strconv.ParseInt(text, 10, 64)
				ok = err == nil
			}
			if !ok {
				return nil, fmt.Errorf("list pending messages: id %v of %s is no number", d[ask.field], ask.collection)
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *mongoDB) unsettled(ctx context.Context) ([]string, error) {
	var what []string
	for _, ask := range []struct {
		collection, by, format string
		filter                 bson.D
	}{
		{"outbox", "", "%d rows in outbox%s", bson.D{}},
		{"events", "$status", "%d rows of events are %s", bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "delivered"}}}}},
		{"tailbox_parked", "$state", "%d deliveries are %s", bson.D{}},
	} {
		cur, err := m.collection(ask.collection).Aggregate(ctx, bson.A{bson.D{{Key: "$match", Value: ask.filter}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: ask.by}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}})
		if err != nil {
			return nil, err
		}
		var found []struct {
			By string `bson:"_id"`
			N  int    `bson:"n"`
		}
		if err := cur.All(ctx, &found); err != nil {
			return nil, err
		}
		for _, f := range found {
			what = append(what, fmt.Sprintf(ask.format, f.N, f.By))
		}
	}
	return what, nil
}

// writer implements database.
func (m *mongoDB) writer(ctx context.Context, _ string) (writer, error) {
	if err := m.client.Ping(ctx, nil); err != nil {
		return nil, err
	}
	session, err := m.client.StartSession()
	if err != nil {
		return nil, err
	}
	return &mongoWriter{db: m, session: session}, nil
}

type mongoWriter struct {
	db      *mongoDB
	session *mongo.Session
	alone   bool // what is written is part of no transaction
}

func (w *mongoWriter) broken() bool { return false }
func (w *mongoWriter) close()       { w.session.EndSession(context.Background()) }

func (w *mongoWriter) ids(_ context.Context, n int) ([]int64, error) { return w.db.nextIDs(n), nil }

func (w *mongoWriter) begin(_ context.Context, alone bool) error {
	if w.alone = alone; alone {
		return nil
	}
	return w.session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()))
}

func (w *mongoWriter) commit(ctx context.Context) error {
	if w.alone {
		return nil
	}
	return w.session.CommitTransaction(ctx)
}

func (w *mongoWriter) rollback(ctx context.Context) error {
	if w.alone {
		return nil
	}
	return w.session.AbortTransaction(ctx)
}

func (w *mongoWriter) in(ctx context.Context) context.Context {
	if w.alone {
		return ctx
	}
	return mongo.NewSessionContext(ctx, w.session)
}

func (w *mongoWriter) insert(ctx context.Context, table string, rows []written) error {
	documents := make([]any, len(rows))
	for i := range rows {
		r := &rows[i]
		if table == "events" {
			d := bson.D{{Key: "_id", Value: r.id}, {Key: "type", Value: "Changed"}, {Key: "topic", Value: r.topic}, {Key: "key", Value: r.key},
				{Key: "payload", Value: bson.Binary{Data: r.payload}}, {Key: "status", Value: "pending"}, {Key: "created_at", Value: time.Now()}}
			if r.group != "" {
				d = append(d, bson.E{Key: "message_group", Value: r.group})
			}
			documents[i] = d
			continue
		}
		var payload bson.D
		if err := bson.UnmarshalExtJSON(r.payload, false, &payload); err != nil {
			return err
		}
		documents[i] = bson.D{{Key: "_id", Value: r.id}, {Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: r.key},
			{Key: "type", Value: "Placed"}, {Key: "payload", Value: payload}}
	}
	_, err := w.db.collection(table).InsertMany(w.in(ctx), documents)
	return err
}

func (w *mongoWriter) remove(ctx context.Context, ids []int64) error {
	_, err := w.db.collection("outbox").DeleteMany(w.in(ctx), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	return err
}
