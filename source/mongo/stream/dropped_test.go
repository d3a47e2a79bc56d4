package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/test/servers"
)

// rename gives a collection of the rig's database another name; what had that is dropped.
func rename(r *mongotest.Rig, from, to string) {
	r.T.Helper()
	r.Must(r.Client.Database("admin").RunCommand(r.Ctx, bson.D{{Key: "renameCollection", Value: r.Config.Schema + "." + from},
		{Key: "to", Value: r.Config.Schema + "." + to}, {Key: "dropTarget", Value: true}}).Err())
}

// ends are what takes a table's name away.
func ends() map[string]func(r *mongotest.Rig) {
	return map[string]func(r *mongotest.Rig){
		"drop":         func(r *mongotest.Rig) { r.Must(r.Collection(0).Drop(r.Ctx)) },
		"rename":       func(r *mongotest.Rig) { rename(r, "outbox", "elsewhere") },
		"dropDatabase": func(r *mongotest.Rig) { r.Must(r.Client.Database(r.Config.Schema).Drop(r.Ctx)) },
	}
}

// ofOneAndTwo are the tables of a pipeline: one is read by a stream of its collection, two by one of their database.
func ofOneAndTwo() [][]outbox.Table {
	second := mongotest.Table("debezium")
	second.Name = "second"
	return [][]outbox.Table{{mongotest.Table("debezium")}, {mongotest.Table("debezium"), second}}
}

// A table that does not exist any more ends Run with its name and the fix, after everything before it. The log goes on where the
// fix was followed.
func TestDroppedCollection(t *testing.T) {
	t.Parallel()
	for name, end := range ends() {
		for _, tables := range ofOneAndTwo() {
			t.Run(fmt.Sprint(name, len(tables)), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, servers.SharedMongo(t), tables...)
				from := r.Establish()
				r.Insert(r.Ctx, 0, "1", nil)
				x := r.Read(source.Start{From: from, Log: 1})
				ms, _ := x.Messages(1)
				mongotest.Equal(t, "before the end", mongotest.IDs(ms), "1")
				end(r)
				x.Fails(source.ErrNoTable, r.Config.Tables[0].String()+" does not exist")
				x = r.Read(source.Start{From: from, Log: 1})
				ms, resume := x.Messages(1)
				mongotest.Equal(t, "before the end, again", mongotest.IDs(ms), "1")
				x.Fails(source.ErrStop, "tailbox init")
				if _, err := r.Source.Establish(r.Ctx); !errors.Is(err, source.ErrStop) {
					t.Errorf("establish without the collection: %v", err)
				}
				if _, err := setup.Init(r.Ctx, r.Config); err != nil {
					t.Fatal(err)
				}
				r.Insert(r.Ctx, 0, "2", nil)
				if e, err := r.Source.Examine(r.Ctx, "", resume); err != nil || e.Lost != "" {
					t.Errorf("examine: %+v, %v", e, err)
				}
				x = r.Read(source.Start{From: resume, Log: 1})
				ms, _ = x.Messages(1)
				mongotest.Equal(t, "behind the end", mongotest.IDs(ms), "2")
			})
		}
	}
}

// An application's own rotation, while the relay runs or does not: whatever had a table's name is read to its end, be it there still
// or not, and nothing in the database has to tell what is pending.
func TestRotatedCollection(t *testing.T) {
	t.Parallel()
	for name, end := range ends() {
		if name == "dropDatabase" {
			continue // with what the relay itself writes
		}
		for _, tables := range ofOneAndTwo() {
			t.Run(fmt.Sprint(name, len(tables)), func(t *testing.T) {
				t.Parallel()
				for i := range tables {
					tables[i].OnDelivered = outbox.Keep
				}
				r := newRig(t, servers.SharedMongo(t), tables...)
				from := r.Establish()
				for i := range 3 {
					r.Insert(r.Ctx, 0, fmt.Sprint(i), nil) // makes it anew
					end(r)
				}
				r.Insert(r.Ctx, 0, "3", nil)
				x := r.Read(source.Start{From: from, Log: 1})
				ms, _ := x.Messages(4)
				mongotest.Equal(t, "messages", mongotest.IDs(ms), "0 1 2 3")
				for i := 1; i < len(ms); i++ {
					if ms[i].Position.Compare(ms[i-1].Position) <= 0 {
						t.Errorf("%s at %s comes behind %s", ms[i].ID, ms[i].Position, ms[i-1].Position)
					}
				}
				// What the second name of two had is not touched by it.
				r.Insert(r.Ctx, len(tables)-1, "4", nil)
				ms, _ = x.Messages(1)
				mongotest.Equal(t, "later", mongotest.IDs(ms), "4")
			})
		}
	}
}

// A collection that was filled under another name is no part of the log. What came before is read, and then it is swept, or an
// operator is asked where nothing tells what is pending in it.
func TestCollectionRenamedTo(t *testing.T) {
	t.Parallel()
	for _, tables := range ofOneAndTwo() {
		for _, on := range []outbox.OnDelivered{outbox.Delete, outbox.Keep} {
			t.Run(fmt.Sprint(on, len(tables)), func(t *testing.T) {
				t.Parallel()
				table := append([]outbox.Table(nil), tables...)
				table[0].OnDelivered = on
				r := newRig(t, servers.SharedMongo(t), table...)
				from := r.Establish()
				r.Insert(r.Ctx, 0, "1", nil)
				_, err := r.Client.Database(r.Config.Schema).Collection("filled").InsertOne(r.Ctx, bson.D{{Key: "_id", Value: "2"}, {Key: "type", Value: "T"}})
				r.Must(err)
				rename(r, "filled", "outbox")
				x := r.Read(source.Start{From: from, Log: 1})
				var last source.Resume
				seen := ""
				for ended := false; !ended; {
					b := x.Next()
					seen += mongotest.IDs(b.Messages)
					if last = b.Resume; last != "" {
						ended = placeOf(t, last).Ended
					}
				}
				mongotest.Equal(t, "before the end", seen, "1")
				r.Source.Confirm(last)
				x.Fails(source.ErrGap, "another collection has taken its place")
				if e, err := r.Source.Examine(r.Ctx, "", last); err != nil || e.Lost == "" {
					t.Errorf("examine: %+v, %v, want it lost", e, err)
				}
				snap, err := r.Source.Establish(r.Ctx)
				r.Must(err)
				sweep, err := snap.Judge(r.Ctx, source.Known{})
				if on == outbox.Keep && (!errors.Is(err, source.ErrUnjudged) || !strings.Contains(err.Error(), r.Config.Tables[0].String())) ||
					on == outbox.Delete && (err != nil || !sweep) {
					t.Errorf("judge: %v, %v", sweep, err)
				}
				r.Must(snap.Close(r.Ctx))
				r.Read(source.Start{From: last, Log: 1}).Fails(source.ErrGap, "")
			})
		}
	}
}

// A connection that is lost right behind the end of a change stream is no lost position: the driver cannot resume there, but the log is
// read on.
func TestLostBehindInvalidate(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	at, err := oplog.ParsePlace(r.Establish())
	r.Must(err)
	r.Insert(r.Ctx, 0, "1", nil)
	r.Must(r.Collection(0).Drop(r.Ctx))
	src := New(r.Config)
	cfg := &src.cfg
	changes, err := watch(r.Ctx, cfg, r.Client, position{at: at.At + 1}, false)
	r.Must(err)
	from := position{}
	for from.token == nil {
		if !changes.Next(r.Ctx) {
			t.Fatalf("no invalidate came: %v", changes.Err())
		}
		if changes.Current.Lookup("operationType").StringValue() == "invalidate" {
			from.token = slices.Clone(changes.Current.Lookup("_id").Document())
		}
	}
	r.Must(changes.Close(r.Ctx))
	changes, err = watch(r.Ctx, cfg, r.Client, from, false)
	r.Must(err)
	r.Must(r.Client.Database(cfg.Schema).RunCommand(r.Ctx, bson.D{{Key: "killCursors", Value: cfg.Tables[0].Name},
		{Key: "cursors", Value: bson.A{changes.ID()}}}).Err())
	r.Insert(r.Ctx, 0, "2", nil)
	ctx, cancel := context.WithCancel(r.Ctx)
	defer cancel()
	seen := ""
	st := &stream{cfg: cfg, source: src, client: r.Client, start: source.Start{Log: 1}, from: from, oneShard: true,
		dec: document.Decoder{MaxMessage: 1 << 20}, batchState: batchState{done: at.At, reported: at.At},
		emit: func(_ context.Context, b *source.Batch) error {
			if seen += mongotest.IDs(b.Messages); seen != "" {
				cancel()
			}
			return nil
		}}
	table := &cfg.Tables[0]
	streamed, err := newStreamTable(table)
	r.Must(err)
	st.tables = []streamTable{streamed}
	st.follow(ctx, changes)
	defer func() { st.feed.close(r.Ctx) }() // the last one
	if err := st.read(ctx); seen != "2" {
		t.Fatalf("read %q, and then: %v", seen, err)
	}
}
