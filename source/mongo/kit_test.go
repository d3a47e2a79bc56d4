package mongo_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestSourceKit(t *testing.T) {
	t.Parallel()
	sourcetest.Source(t, kitKind(servers.Mongo(t, servers.WithMongoAuth())))
}

func TestStoreKit(t *testing.T) {
	t.Parallel()
	sourcetest.Store(t, kitKind(servers.Mongo(t, servers.WithMongoAuth())))
}

// kitKind opens databases of a server that asks for users: the relay's has what RoleScript grants, and no more.
func kitKind(server *servers.MongoServer) sourcetest.Kind {
	return sourcetest.Kind{
		Business: kitBusiness(),
		Open:     func(t *testing.T, s sourcetest.Setup) sourcetest.Database { return openKit(t, server, s) },
		IDs: map[string][]string{
			"objectid": {"0123456789abcdef01234567", "fedcba9876543210fedcba98"}, "string": {"'\\x", "7", "\u00e4"},
			"uuid": {"0b0e8f6a-8a3e-4b58-9d3c-111111111111", "ffffffff-8a3e-4b58-9d3c-111111111111"},
			"int":  {"3", "20"}, "long": {"-9000000000", "3", "20"}, "double": {"7", "10"},
		},
		Payloads: map[string][]sourcetest.Payload{
			"binary": alike("", "\x00\xff\x10", "text"), "string": alike("", "x \n\t'\\\u00e4\U0001F600", `{ "a":1.0,"a" : 2}`),
			"document": append(alike(`{"n":1.5,"l":[1,"x",null,true]}`, `[]`, `7`),
				sourcetest.Payload{Written: []byte(`{"b":1,"a" : [1.0]}`), Read: []byte(`{"b":1,"a":[1.0]}`)}),
		},
		Kill: func(ctx context.Context, db sourcetest.Database, st checkpoint.Store) error {
			// What ends a session for good is that another relay takes the lease over.
			return db.(*kitDatabase).depose(ctx, st.(*store.Store).Epoch())
		},
		Refuse: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.collection(catalog.Parked).Database().RunCommand(ctx, bson.D{{Key: "collMod", Value: catalog.Parked}, {Key: "validator", Value: bson.D{
				{Key: "$nor", Value: bson.A{bson.D{{Key: "sink", Value: "mail"}, {Key: "type", Value: "refused"}},
					bson.D{{Key: "message_group", Value: "stay"}, {Key: "next_attempt_at", Value: nil}}}}}}}).Err()
		},
		Forge: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			_, err := d.collection(catalog.Requests).InsertOne(ctx, bson.D{{Key: "_id", Value: int64(1000)}, {Key: "pipeline", Value: d.cfg.Pipeline},
				{Key: "verb", Value: "feedback"}, {Key: "done_at", Value: time.Now()}, {Key: "in_force", Value: bson.D{{Key: "sinks", Value: bson.A{"forged"}}}}})
			return err
		},
		RefuseDead: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			return db.(*kitDatabase).collection(t.Name).Database().RunCommand(ctx, bson.D{{Key: "collMod", Value: t.Name}, {Key: "validator", Value: bson.D{
				{Key: "status", Value: bson.D{{Key: "$ne", Value: "dead"}}}}}}).Err()
		},
		TextID: "string",
		DropTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			return db.(*kitDatabase).collection(t.Name).Drop(ctx)
		},
		CreateTable: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table) error {
			return db.(*kitDatabase).client.Database(t.Schema).CreateCollection(ctx, t.Name)
		},
		// Documents have no common columns; a migration gives them a field by an update of all.
		AddColumn: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, name string) error {
			_, err := db.(*kitDatabase).collection(t.Name).UpdateMany(ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: nil}}}})
			return err
		},
		NullStatus: func(ctx context.Context, db sourcetest.Database, t sourcetest.Table, ids ...string) error {
			if len(ids) == 0 {
				return nil
			}
			var values bson.A
			for _, id := range ids {
				values = append(values, idValue(t.IDType, id))
			}
			done, err := db.(*kitDatabase).collection(t.Name).UpdateMany(ctx, bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: values}}}},
				bson.D{{Key: "$set", Value: bson.D{{Key: t.Columns.Status, Value: nil}}}})
			if err == nil && done.MatchedCount != int64(len(ids)) {
				err = fmt.Errorf("%d of %d documents were found", done.MatchedCount, len(ids))
			}
			return err
		},
		Outlast: func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).giveUpReader(ctx) },
		Cut:     func(_ context.Context, db sourcetest.Database) error { db.(*kitDatabase).proxy.Reset(); return nil },
		ReadsOn: true, // the driver resumes the change stream
		Gap:     func(ctx context.Context, db sourcetest.Database) error { return db.(*kitDatabase).rollOver(ctx) },
		Restart: func(_ context.Context, db sourcetest.Database) error { return db.(*kitDatabase).server.Restart() },
		Lacks: map[string]string{
			sourcetest.CanSavepoint: "MongoDB has no savepoints: what fails in a transaction ends it",
			sourcetest.CanTxn:       "the change stream shows only what a majority has, and a settlement reads after that, so there are no rows that are not visible yet",
		},
	}
}

func alike(texts ...string) (ps []sourcetest.Payload) {
	for _, text := range texts {
		ps = append(ps, sourcetest.Payload{Written: []byte(text), Read: []byte(text)})
	}
	return append(ps, sourcetest.Payload{})
}

// A kitDatabase is a database as the kit wants it.
type kitDatabase struct {
	t      testing.TB
	server *servers.MongoServer
	client *mongo.Client
	cfg    conn.Config
	tables []sourcetest.Table
	proxy  *servers.Proxy // on the way of readers that can be cut
}

func openKit(t testing.TB, server *servers.MongoServer, s sourcetest.Setup) *kitDatabase {
	t.Helper()
	d := &kitDatabase{t: t, server: server}
	if s.Own {
		d.server = servers.Mongo(t, servers.WithMongoOplog(4), servers.WithMongoAuth())
	}
	d.client = d.server.Client(t)
	name := d.server.NewDatabase(t)
	d.cfg = conn.Config{Config: source.Config{Pipeline: name, URL: d.server.URL(), Schema: name, Start: s.Start, MaxMessage: s.MaxMessage}}
	for _, table := range s.Tables {
		table.Schema = name
		if table.Columns.ID == "id" {
			table.Columns.ID = "_id"
		}
		d.tables, d.cfg.Tables = append(d.tables, table), append(d.cfg.Tables, table.Table)
	}
	if _, err := setup.Init(context.Background(), d.cfg); err != nil {
		t.Fatal(err)
	}
	if d.tables[0].Feedback != nil {
		if err := makeTold(context.Background(), d); err != nil {
			t.Fatal(err)
		}
	}
	if s.Cut {
		d.proxy = servers.NewProxy(t, d.server.Addr())
	}
	if err := mongotest.Least(context.Background(), d.client, d.cfg.Pipeline, setup.RoleName(&d.cfg), setup.Privileges(&d.cfg)); err != nil {
		t.Fatal(err)
	}
	d.cfg.URL = d.server.URLOf(name, "p")
	return d
}

func (d *kitDatabase) Tables() []sourcetest.Table { return d.tables }

func (d *kitDatabase) Source() source.Source {
	cfg := d.cfg
	if d.proxy != nil {
		cfg.URL = strings.Replace(d.server.URLThrough(d.proxy), servers.MongoUsername+":"+servers.MongoPassword+"@", cfg.Pipeline+":p@", 1)
	}
	return stream.New(cfg)
}

func (d *kitDatabase) Store(ctx context.Context) (checkpoint.Store, error) {
	return store.Open(ctx, d.cfg)
}

func (d *kitDatabase) collection(name string) *mongo.Collection {
	return d.client.Database(d.cfg.Schema).Collection(name)
}

func (d *kitDatabase) Conn(context.Context) (sourcetest.Conn, error) {
	session, err := d.client.StartSession()
	return &kitConn{d, session}, err
}

func (d *kitDatabase) Rows(ctx context.Context, t sourcetest.Table) ([]sourcetest.Row, error) {
	cur, err := d.collection(t.Name).Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: t.Columns.ID, Value: 1}}))
	if err != nil {
		return nil, err
	}
	defer cur.Close(ctx)
	var rows []sourcetest.Row
	var dec document.Decoder
	for cur.Next(ctx) {
		id, err := dec.IDText(document.Field(cur.Current, t.Columns.ID))
		if err != nil {
			return nil, err
		}
		row := sourcetest.Row{ID: string(id)}
		if c := &t.Columns; c.Status != "" {
			text := func(name string) string { s, _ := cur.Current.Lookup(name).StringValueOK(); return s }
			row.Status, row.LastError = text(c.Status), text(c.LastError)
			n, _ := cur.Current.Lookup(c.Attempts).AsInt64OK()
			row.Attempts = int(n)
			_, row.Delivered = cur.Current.Lookup(c.DeliveredAt).TimeOK()
		}
		if c := t.Columns.Receipt; c != "" {
			row.Receipt, _ = cur.Current.Lookup(c).StringValueOK()
		}
		rows = append(rows, row)
	}
	return rows, cur.Err()
}

func (d *kitDatabase) Reset(ctx context.Context, t sourcetest.Table, ids ...string) error {
	var values bson.A
	for _, id := range ids {
		values = document.AppendIDs(values, 0, id)
	}
	_, err := d.collection(t.Name).UpdateMany(ctx, bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: values}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: t.Columns.Status, Value: t.Words.Pending}}}})
	return err
}

func (d *kitDatabase) Parked(ctx context.Context) ([]checkpoint.Parked, error) {
	cur, err := d.collection(catalog.Parked).Find(ctx, bson.D{{Key: "state", Value: bson.D{{Key: "$ne", Value: checkpoint.StateDelivered}}}})
	if err != nil {
		return nil, err
	}
	docs, err := delivery.All(ctx, cur)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(docs, func(a, b *delivery.Document) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Sink, b.Sink))
	})
	var ps []checkpoint.Parked
	for _, doc := range docs {
		p, err := doc.Delivery(time.Now())
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func (d *kitDatabase) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return store.Operator(d.cfg).Ask(ctx, r)
}

func (d *kitDatabase) Answer(ctx context.Context, id int64) (sourcetest.Answer, error) {
	result, done, err := store.Operator(d.cfg).Result(ctx, id)
	if err != nil || result == nil {
		return sourcetest.Answer{}, err
	}
	return sourcetest.Answer{Done: done, Changed: result.Changed, Refused: result.Refused, Error: result.Error}, nil
}

// depose ends a holder's lease as a take-over does, and leaves it to whoever comes next.
func (d *kitDatabase) depose(ctx context.Context, epoch int64) error {
	_, err := d.collection(catalog.Checkpoints).UpdateOne(ctx, bson.D{{Key: "lease_epoch", Value: epoch}}, bson.D{
		{Key: "$inc", Value: bson.D{{Key: "lease_epoch", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "lease_expires_at", Value: time.Unix(0, 0)}}}})
	return err
}

// giveUpReader kills the cursor of a change stream that is not asked for more, as the server does after 10 minutes.
func (d *kitDatabase) giveUpReader(ctx context.Context) error {
	for {
		cur, err := d.client.Database("admin").Aggregate(ctx, bson.A{bson.D{{Key: "$currentOp", Value: bson.D{{Key: "idleCursors", Value: true}, {Key: "allUsers", Value: true}}}},
			bson.D{{Key: "$match", Value: bson.D{{Key: "type", Value: "idleCursor"}, {Key: "cursor.originatingCommand.pipeline.0.$changeStream", Value: bson.D{{Key: "$exists", Value: true}}},
				{Key: "ns", Value: bson.D{{Key: "$regex", Value: "^" + d.cfg.Schema + `\.`}}}}}}})
		if err != nil {
			return err
		}
		var idle []struct {
			NS     string `bson:"ns"`
			Cursor struct {
				CursorID int64 `bson:"cursorId"`
			} `bson:"cursor"`
		}
		if err := cur.All(ctx, &idle); err != nil {
			return err
		}
		for _, c := range idle {
			database, collection, _ := strings.Cut(c.NS, ".")
			return d.client.Database(database).RunCommand(ctx, bson.D{{Key: "killCursors", Value: collection}, {Key: "cursors", Value: bson.A{c.Cursor.CursorID}}}).Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rollOver writes until the oplog begins after everything that is in it now.
func (d *kitDatabase) rollOver(ctx context.Context) error {
	now, err := oplog.Now(ctx, d.client)
	if err != nil {
		return err
	}
	filler := bson.D{{Key: "x", Value: bson.Binary{Data: bytes.Repeat([]byte{'x'}, 1<<20)}}}
	for {
		for range 4 {
			if _, err := d.collection("filler").InsertOne(ctx, filler); err != nil {
				return err
			}
		}
		var first struct {
			TS bson.Timestamp `bson:"ts"`
		}
		if err := d.client.Database("local").Collection("oplog.rs").FindOne(ctx, bson.D{}).Decode(&first); err != nil {
			return err
		}
		if oplog.TimeOf(first.TS.T, first.TS.I) > now {
			return nil
		}
	}
}

// A kitConn is an application's connection.
type kitConn struct {
	d       *kitDatabase
	session *mongo.Session
}

func (c *kitConn) Begin(context.Context) error      { return c.session.StartTransaction() }
func (c *kitConn) Commit(ctx context.Context) error { return c.session.CommitTransaction(ctx) }
func (c *kitConn) Rollback(ctx context.Context) error {
	return c.session.AbortTransaction(ctx)
}
func (c *kitConn) Savepoint(context.Context) error  { return nil }
func (c *kitConn) RollbackTo(context.Context) error { return nil }

// Truncate empties a collection, as one does where there is no TRUNCATE.
func (c *kitConn) Truncate(ctx context.Context, t sourcetest.Table) error {
	_, err := c.d.collection(t.Name).DeleteMany(mongo.NewSessionContext(ctx, c.session), bson.D{})
	return err
}

func (c *kitConn) Close(ctx context.Context) error {
	c.session.EndSession(ctx)
	return nil
}

func (c *kitConn) Insert(ctx context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	docs := make([]any, len(ms))
	for i, m := range ms {
		var doc bson.D
		if t.Columns.Status != "" {
			doc = append(doc, bson.E{Key: t.Columns.Status, Value: t.Words.Pending})
		}
		for _, v := range t.Values(m) {
			switch v.Column {
			case t.Columns.ID:
				v.V = idValue(t.IDType, v.V.(string))
			case t.Columns.Headers:
				var d bson.D
				if err := bson.UnmarshalExtJSON([]byte(v.V.(string)), false, &d); err != nil {
					return err
				}
				v.V = d
			case t.Columns.Payload:
				v.V = payloadValue(t, v.V.([]byte))
			}
			doc = append(doc, bson.E{Key: v.Column, Value: v.V})
		}
		docs[i] = doc
	}
	_, err := c.d.collection(t.Name).InsertMany(mongo.NewSessionContext(ctx, c.session), docs)
	return err
}

// idValue is an id of a type; the default is a UUID.
func idValue(typ, text string) any {
	switch typ {
	case "string":
		return text
	case "int", "long", "double":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return text
		}
		switch typ {
		case "int":
			return int32(n)
		case "double":
			return float64(n)
		}
		return n
	case "objectid":
		id, err := bson.ObjectIDFromHex(text)
		if err != nil {
			return text
		}
		return id
	}
	if b, ok := document.ParseUUID(text); ok {
		return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: b}
	}
	return text
}

// payloadValue is a payload as it is written: binary by default, in the shape debezium what its JSON says.
func payloadValue(t sourcetest.Table, b []byte) any {
	switch {
	case b == nil:
		return nil
	case t.PayloadType == "string":
		return string(b)
	case t.PayloadType == "document" || t.PayloadType == "" && t.Shape == "debezium":
		var doc bson.D
		if json.Valid(b) && bson.UnmarshalExtJSON(fmt.Appendf(nil, `{"v":%s}`, b), false, &doc) == nil {
			return doc[0].Value
		}
		return string(b)
	}
	return b
}

func (c *kitConn) Update(ctx context.Context, t sourcetest.Table, ms ...*outbox.Message) error {
	for _, m := range ms {
		_, err := c.d.collection(t.Name).UpdateOne(mongo.NewSessionContext(ctx, c.session), bson.D{{Key: t.Columns.ID, Value: idValue(t.IDType, m.ID)}},
			bson.D{{Key: "$set", Value: bson.D{{Key: t.Columns.Type, Value: m.Type}, {Key: t.Columns.Payload, Value: payloadValue(t, m.Payload)}}},
				{Key: "$inc", Value: bson.D{{Key: "updates", Value: 1}}}}) // the same values again would write nothing
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *kitConn) Delete(ctx context.Context, t sourcetest.Table, ids ...string) error {
	var values bson.A
	for _, id := range ids {
		values = append(values, idValue(t.IDType, id))
	}
	_, err := c.d.collection(t.Name).DeleteMany(mongo.NewSessionContext(ctx, c.session), bson.D{{Key: t.Columns.ID, Value: bson.D{{Key: "$in", Value: values}}}})
	return err
}
