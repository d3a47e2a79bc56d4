package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// A change is what is needed of an event.
type change struct {
	op       []byte
	at       oplog.Time
	wall     int64 // milliseconds since 1970; 0 if the server does not say (before 6.0)
	document []byte
	inTxn    bool
	key      []byte // the document's, with its _id
	// ns is the collection's, and for a rename to that of the new one.
	ns, to namespace
}

// A namespace is a collection's name as an event has it: a document of db and coll, where a database's has only db; nil = none.
type namespace []byte

// parseChange finds the parts of an event. Nothing is copied.
func parseChange(raw []byte) (change, error) {
	var c change
	e := document.ElementsOf(raw)
	for {
		key, v, ok := e.Next()
		if !ok {
			break
		}
		switch {
		case v.Type == bson.TypeString && string(key) == "operationType":
			c.op = v.Text()
		case v.Type == bson.TypeTimestamp && string(key) == "clusterTime":
			t := v.Timestamp()
			c.at = oplog.TimeOf(t.T, t.I)
		case v.Type == bson.TypeDateTime && string(key) == "wallTime":
			c.wall = v.Int64()
		case string(key) == "txnNumber":
			c.inTxn = true
		case v.Type != bson.TypeEmbeddedDocument:
		case string(key) == "fullDocument":
			c.document = v.Data
		case string(key) == "ns":
			c.ns = v.Data
		case string(key) == "to":
			c.to = v.Data
		case string(key) == "documentKey":
			c.key = v.Data
		}
	}
	if e.Err == nil && (c.op == nil || c.at == 0) {
		e.Err = errors.New("it has no operationType or clusterTime")
	}
	if e.Err != nil {
		return c, fmt.Errorf("read a change event: %w", e.Err)
	}
	return c, nil
}

func (n namespace) names() (database, name []byte) {
	e := document.ElementsOf(n)
	for {
		key, v, ok := e.Next()
		if !ok {
			return database, name
		}
		switch {
		case v.Type != bson.TypeString:
		case string(key) == "db":
			database = v.Text()
		case string(key) == "coll":
			name = v.Text()
		}
	}
}

// String is the name for messages.
func (n namespace) String() string {
	database, name := n.names()
	return fmt.Sprintf("%s.%s", database, name)
}

// tableOf finds a configured table; nil if it is none.
func (st *stream) tableOf(ns namespace) *streamTable {
	for i := range st.tables {
		if t := &st.tables[i]; bytes.Equal(t.ns, ns) {
			return t
		}
	}
	// A server may say more in it, or in another order.
	database, name := ns.names()
	for i := range st.tables {
		if t := &st.tables[i]; bytes.Equal(t.name, name) && bytes.Equal(t.database, database) {
			return t
		}
	}
	return nil
}

// event handles one event.
func (st *stream) event(ctx context.Context, raw bson.Raw) error {
	c, err := parseChange(raw)
	if err != nil {
		return err
	}
	if string(c.op) != "insert" {
		return st.ending(ctx, &c, document.Field(raw, "_id").Data)
	}
	t := st.tableOf(c.ns)
	if t == nil {
		return fmt.Errorf("read a change event: the insert is into %s, which is no table of this pipeline", c.ns)
	}
	if err := st.room(ctx, len(c.document)); err != nil {
		return err
	}
	if err := st.begin(ctx, c.at); err != nil {
		return err
	}
	if st.next == math.MaxUint32 {
		return fmt.Errorf("number the documents of the transaction at %s: more than 2^32: %w", c.at, source.ErrStop)
	}
	p := outbox.Position{Log: st.start.Log, Commit: uint64(c.at), N: st.next}
	st.next++
	if st.start.SafeMode != nil {
		if err := st.start.SafeMode(ctx, p); err != nil {
			return err
		}
	}
	m, size, err := st.message(ctx, t, &c)
	if err != nil {
		// What came before is good: it is delivered although reading stops here.
		return errors.Join(err, st.flush(ctx))
	}
	if m.Position = p; m.ID == "" {
		m.ID = outbox.StandInID(p.String())
	}
	if m.CommitTime = time.Unix(int64(c.at>>32), 0).UTC(); c.wall != 0 {
		m.CommitTime = time.UnixMilli(c.wall).UTC()
	}
	if st.single && !c.inTxn {
		st.complete(c.at)
	} else {
		st.open = true
	}
	return st.add(ctx, m, size)
}

// message makes a message of an insert. A document that did not fit into the event is read from the table.
func (st *stream) message(ctx context.Context, t *streamTable, c *change) (*outbox.Message, int, error) {
	m := st.dec.NewMessage()
	if c.document != nil {
		return m, len(c.document), st.dec.Decode(t.plan, c.document, m)
	}
	doc, err := st.fetch(ctx, t, c)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		// The application removed it meanwhile, or an earlier start delivered it: there is nothing left to deliver. It is a
		// message all the same, so that it is seen that something was not.
		if id, err := st.dec.IDText(document.Field(c.key, "_id")); err == nil && t.table.Columns.ID == "_id" {
			m.ID = arena.StringOf(id)
		}
		m.Table = t.plan.Table
		m.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: "the document was too large for an event of the change stream, " +
			"and is gone from " + t.plan.Table + ": drop the message, and keep payloads below 15 MB"}
	case err != nil:
		return nil, 0, conn.Fault("read a large document of "+t.plan.Table, err)
	default:
		if err := st.dec.Decode(t.plan, doc, m); err != nil {
			return nil, 0, err
		}
	}
	if err := st.reopenAfter(ctx); err != nil {
		return nil, 0, err
	}
	return m, len(doc), nil
}

// reopenAfter ends the reading without large documents once one was passed, at the end of the server's batch.
func (st *stream) reopenAfter(ctx context.Context) error {
	if st.more {
		return nil // the next large one does it, or the end of this Run
	}
	st.slim = false
	return st.reopen(ctx)
}

// fetch reads the document of an event as it is now.
func (st *stream) fetch(ctx context.Context, t *streamTable, c *change) (bson.Raw, error) {
	coll := st.client.Database(t.table.Schema).Collection(t.table.Name)
	// The event was that of a majority, so a majority's read at the primary sees it.
	return coll.FindOne(ctx, bson.D{{Key: "_id", Value: document.Field(c.key, "_id").RawValue()}}, options.FindOne()).Raw()
}

// ending handles an event after which a table's name stands for something else. Everything before it is emitted first.
func (st *stream) ending(ctx context.Context, c *change, token bson.Raw) error {
	what := string(c.op)
	if what == "invalidate" {
		return st.reopenBehind(ctx, c, token)
	}
	taken := st.tableOf(c.to) != nil
	ours := taken || st.tableOf(c.ns) != nil || what == "dropDatabase" && st.inDatabase(c.ns)
	if !ours {
		return nil
	}
	if err := st.begin(ctx, c.at); err != nil {
		return err
	}
	if st.oneShard {
		st.complete(c.at)
	} else {
		st.open = true
	}
	if taken {
		return st.taken(ctx, c)
	}
	st.cfg.Logger.Warn("a collection of the outbox was dropped or renamed: reading on what the log has of another one by its name",
		"operation", what, "collection", c.ns.String())
	return st.look(ctx)
}

// look finds out whether all tables exist. If one does not, what the log holds until now is read before that ends Run: the name may
// have stood for another collection in between.
func (st *stream) look(ctx context.Context) error {
	now, err := oplog.Now(ctx, st.client)
	if err != nil {
		return err
	}
	missing := catalog.Existing(ctx, st.cfg, st.client)
	if missing != nil && !errors.Is(missing, source.ErrStop) {
		return missing
	}
	// A token tells that all before its time was read. Of the very time nothing is lost either: the next start begins there.
	st.missing, st.missingAt = missing, now-1
	return nil
}

// reopenBehind goes on behind the end of a change stream. That of a collection ends when it is dropped or renamed, and the next one
// has the inserts into a collection that gets its name later.
func (st *stream) reopenBehind(ctx context.Context, c *change, token bson.Raw) error {
	if err := st.begin(ctx, c.at); err != nil {
		return err
	}
	st.feed.close(ctx)
	return st.watch(ctx, position{token: slices.Clone(token)})
}

// taken handles that a collection was given a table's name. The log has no inserts for what is in it already: the next start cannot
// pass this place, but has to sweep it.
func (st *stream) taken(ctx context.Context, c *change) error {
	st.complete(c.at)
	if err := st.flush(ctx); err != nil {
		return err
	}
	place := oplog.Place{At: c.at, Ended: true}.Resume()
	st.cfg.Logger.Error("another collection was given the name of one of the outbox: the log does not tell what is in it",
		"collection", c.to.String(), "before", c.ns.String())
	settled := st.source.await(place)
	if err := st.send(ctx, &source.Batch{Resume: place}); err != nil {
		return err
	}
	if err := catalog.Existing(ctx, st.cfg, st.client); err != nil {
		return fmt.Errorf("read the log beyond the rename of %s to %s: %w", c.ns, c.to, err)
	}
	// Reading would begin at this place again and again, until it is saved that it was passed.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-settled:
	}
	return fmt.Errorf("read the log beyond the rename of %s to %s: another collection has taken its place: %w", c.ns, c.to, source.ErrGap)
}

// inDatabase reports whether a table lies in a database; every one does where it is not named.
func (st *stream) inDatabase(ns namespace) bool {
	database, _ := ns.names()
	for i := range st.tables {
		if database == nil || bytes.Equal(st.tables[i].database, database) {
			return true
		}
	}
	return false
}
