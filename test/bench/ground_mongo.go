package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/tailbox/tailbox/test/servers"
)

type mongoServer struct {
	m      *servers.MongoServer
	client *mongo.Client
}

// startMongo starts a server that takes one transaction of some hundred megabytes: it holds all of one in its cache.
func startMongo() (server, error) {
	m, err := servers.StartMongo(servers.WithMongoArguments("--setParameter", "transactionLifetimeLimitSeconds=600", "--oplogSize", "8000"))
	if err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(m.URL()))
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	s := &mongoServer{m, client}
	err = client.Database("admin").RunCommand(context.Background(), bson.D{{Key: "setParameter", Value: 1},
		{Key: "wiredTigerEngineRuntimeConfig", Value: "cache_size=4GB,eviction_dirty_trigger=80,eviction_dirty_target=60,eviction_updates_trigger=60,eviction_updates_target=50"}}).Err()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set the size of the cache: %w", err), s.close())
	}
	return s, nil
}

func (s *mongoServer) close() error {
	return errors.Join(s.client.Disconnect(context.Background()), s.m.Close())
}

// locked: LockTimeout and WriteConflict.
func (s *mongoServer) locked(err error) bool {
	var e mongo.ServerError
	return errors.As(err, &e) && (e.HasErrorCode(24) || e.HasErrorCode(112))
}

func (s *mongoServer) newGround(_ context.Context, name string) (ground, error) {
	return &mongoGround{s: s, name: name, db: s.client.Database(name)}, nil
}

// A mongoGround is a database of a MongoDB server.
type mongoGround struct {
	s    *mongoServer
	name string
	db   *mongo.Database
}

// url is the server's with the database.
func (g *mongoGround) url() string {
	u, err := url.Parse(g.s.m.URL())
	if err != nil {
		return err.Error() // cannot be: it is made from a parsed or a fixed one
	}
	u.Path = "/" + g.name
	return u.String()
}

func (g *mongoGround) source() string { return fmt.Sprintf("  kind: mongodb\n  url: %q", g.url()) }

func (g *mongoGround) bare(ctx context.Context) ([]string, error) {
	at, err := g.end(ctx)
	return []string{"bare-mongo", "-url", g.url(), "-database", g.name, "-from", at}, err
}

func (g *mongoGround) end(ctx context.Context) (string, error) {
	var reply struct {
		OperationTime bson.Timestamp `bson:"operationTime"`
	}
	err := g.db.RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Decode(&reply)
	return fmt.Sprintf("%d:%d", reply.OperationTime.T, reply.OperationTime.I), err
}

func (g *mongoGround) settled(ctx context.Context, pipeline, end string) (bool, error) {
	var doc struct {
		Resume string `bson:"resume"`
	}
	err := g.db.Collection("tailbox_checkpoint").FindOne(ctx, bson.D{{Key: "_id", Value: pipeline}},
		options.FindOne().SetProjection(bson.D{{Key: "resume", Value: 1}})).Decode(&doc)
	if err != nil {
		return false, err
	}
	at, err := parseTimestamp(doc.Resume)
	if err != nil {
		return false, err
	}
	want, err := parseTimestamp(end)
	return !at.Before(want), err
}

// parseTimestamp reads seconds:ordinal.
func parseTimestamp(text string) (at bson.Timestamp, err error) {
	if _, err = fmt.Sscanf(text, "%d:%d", &at.T, &at.I); err != nil {
		err = fmt.Errorf("parse time %q: %w", text, err)
	}
	return at, err
}

func mongoDocument(n int, at int64) bson.D {
	return bson.D{{Key: "aggregatetype", Value: "order"}, {Key: "aggregateid", Value: strconv.Itoa(n % spread)}, {Key: "type", Value: "OrderPlaced"},
		{Key: "payload", Value: bson.D{{Key: "customer", Value: n}, {Key: "t", Value: at}, {Key: "note", Value: payloadNote}}}}
}

func (g *mongoGround) fill(ctx context.Context, rows, perTxn int) error {
	coll := g.db.Collection("outbox")
	return inParallel(rows, perTxn, func(share func() (first, n int)) error {
		session, err := g.s.client.StartSession()
		if err != nil {
			return err
		}
		defer session.EndSession(context.WithoutCancel(ctx))
		for first, n := share(); n > 0 && ctx.Err() == nil; first, n = share() {
			if err := writeDocuments(mongo.NewSessionContext(ctx, session), session, coll, first, n); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// writeDocuments writes documents in one transaction.
func writeDocuments(ctx context.Context, session *mongo.Session, coll *mongo.Collection, first, n int) error {
	if err := session.StartTransaction(options.Transaction().SetWriteConcern(writeconcern.W1())); err != nil {
		return err
	}
	for done := 0; done < n; {
		docs := make([]any, min(n-done, statementRows))
		for i := range docs {
			docs[i] = mongoDocument(first+done+i, 0)
		}
		if _, err := coll.InsertMany(ctx, docs); err != nil {
			return errors.Join(err, session.AbortTransaction(ctx))
		}
		done += len(docs)
	}
	return session.CommitTransaction(ctx)
}

func (g *mongoGround) writer(context.Context) (writer, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(g.url()).SetMaxPoolSize(1))
	if err != nil {
		return nil, err
	}
	return &mongoWriter{client, client.Database(g.name).Collection("outbox", options.Collection().SetWriteConcern(writeconcern.Majority()))}, nil
}

type mongoWriter struct {
	client *mongo.Client
	coll   *mongo.Collection
}

func (w *mongoWriter) write(ctx context.Context, n int, at int64) error {
	_, err := w.coll.InsertOne(ctx, mongoDocument(n, at))
	return err
}

func (w *mongoWriter) close(ctx context.Context) error { return w.client.Disconnect(ctx) }

func (g *mongoGround) empty(ctx context.Context) (rows int, took time.Duration, err error) {
	coll := g.db.Collection("outbox", options.Collection().SetWriteConcern(writeconcern.Majority()))
	cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}).SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return 0, 0, err
	}
	var docs []struct {
		ID bson.ObjectID `bson:"_id"`
	}
	if err := cursor.All(ctx, &docs); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for part := range slices.Chunk(docs, deleteMost) {
		ids := make(bson.A, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		err := g.db.Client().UseSession(ctx, func(ctx context.Context) error {
			_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
				return coll.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
			})
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return len(docs), time.Since(began), nil
}

func (g *mongoGround) drop(ctx context.Context) error { return g.db.Drop(context.WithoutCancel(ctx)) }
