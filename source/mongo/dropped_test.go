package mongo

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
	"github.com/tailbox/tailbox/test/servers"
)

// rename gives a collection of the rig's database another name; what had that is dropped.
func (r *rig) rename(from, to string) {
	r.t.Helper()
	r.must(r.client.Database("admin").RunCommand(r.ctx, bson.D{{Key: "renameCollection", Value: r.cfg.Schema + "." + from},
		{Key: "to", Value: r.cfg.Schema + "." + to}, {Key: "dropTarget", Value: true}}).Err())
}

// ends are what takes a table's name away.
func ends() map[string]func(r *rig) {
	return map[string]func(r *rig){
		"drop":         func(r *rig) { r.must(r.collection(0).Drop(r.ctx)) },
		"rename":       func(r *rig) { r.rename("outbox", "elsewhere") },
		"dropDatabase": func(r *rig) { r.must(r.client.Database(r.cfg.Schema).Drop(r.ctx)) },
	}
}

// ofOneAndTwo are the tables of a pipeline: one is read by a stream of its collection, two by one of their database.
func ofOneAndTwo() [][]outbox.Table {
	second := kitTable("debezium")
	second.Name = "second"
	return [][]outbox.Table{{kitTable("debezium")}, {kitTable("debezium"), second}}
}

// A table that does not exist any more ends Run with its name and the cure, after everything before it. The log goes on where the
// cure was followed.
func TestDroppedCollection(t *testing.T) {
	t.Parallel()
	for name, end := range ends() {
		for _, tables := range ofOneAndTwo() {
			t.Run(fmt.Sprint(name, len(tables)), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, servers.SharedMongo(t), tables...)
				from := r.establish()
				r.insert(r.ctx, 0, "1", nil)
				x := r.read(source.Start{From: from, Log: 1})
				ms, _ := x.messages(1)
				equal(t, "before the end", ids(ms), "1")
				end(r)
				x.fails(source.ErrNoTable, r.cfg.Tables[0].String()+" does not exist")
				x = r.read(source.Start{From: from, Log: 1})
				ms, resume := x.messages(1)
				equal(t, "before the end, again", ids(ms), "1")
				x.fails(source.ErrStop, "tailbox init")
				if _, err := r.src.Establish(r.ctx); !errors.Is(err, source.ErrStop) {
					t.Errorf("establish without the collection: %v", err)
				}
				if _, err := r.cfg.Init(r.ctx); err != nil {
					t.Fatal(err)
				}
				r.insert(r.ctx, 0, "2", nil)
				if e, err := r.src.Examine(r.ctx, "", resume); err != nil || e.Lost != "" {
					t.Errorf("examine: %+v, %v", e, err)
				}
				x = r.read(source.Start{From: resume, Log: 1})
				ms, _ = x.messages(1)
				equal(t, "behind the end", ids(ms), "2")
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
				from := r.establish()
				for i := range 3 {
					r.insert(r.ctx, 0, fmt.Sprint(i), nil) // makes it anew
					end(r)
				}
				r.insert(r.ctx, 0, "3", nil)
				x := r.read(source.Start{From: from, Log: 1})
				ms, _ := x.messages(4)
				equal(t, "messages", ids(ms), "0 1 2 3")
				for i := 1; i < len(ms); i++ {
					if ms[i].Position.Compare(ms[i-1].Position) <= 0 {
						t.Errorf("%s at %s comes behind %s", ms[i].ID, ms[i].Position, ms[i-1].Position)
					}
				}
				// What the second name of two had is not touched by it.
				r.insert(r.ctx, len(tables)-1, "4", nil)
				ms, _ = x.messages(1)
				equal(t, "later", ids(ms), "4")
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
				from := r.establish()
				r.insert(r.ctx, 0, "1", nil)
				_, err := r.client.Database(r.cfg.Schema).Collection("filled").InsertOne(r.ctx, bson.D{{Key: "_id", Value: "2"}, {Key: "type", Value: "T"}})
				r.must(err)
				r.rename("filled", "outbox")
				x := r.read(source.Start{From: from, Log: 1})
				var last source.Resume
				seen := ""
				for !strings.HasPrefix(string(last), endedPrefix) {
					b := x.next()
					seen += ids(b.Messages)
					last = b.Resume
				}
				equal(t, "before the end", seen, "1")
				r.src.Confirm(last)
				x.fails(source.ErrGap, "another collection has taken its place")
				if e, err := r.src.Examine(r.ctx, "", last); err != nil || e.Lost == "" {
					t.Errorf("examine: %+v, %v, want it lost", e, err)
				}
				snap, err := r.src.Establish(r.ctx)
				r.must(err)
				sweep, err := snap.Judge(r.ctx, source.Known{})
				if on == outbox.Keep && (!errors.Is(err, source.ErrUnjudged) || !strings.Contains(err.Error(), r.cfg.Tables[0].String())) ||
					on == outbox.Delete && (err != nil || !sweep) {
					t.Errorf("judge: %v, %v", sweep, err)
				}
				r.must(snap.Close(r.ctx))
				r.read(source.Start{From: last, Log: 1}).fails(source.ErrGap, "")
			})
		}
	}
}

// A connection that is lost right behind the end of a change stream is no lost position: the driver cannot resume there, but the log is
// read on.
func TestLostBehindInvalidate(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), kitTable("debezium"))
	at, err := parsePlace(r.establish())
	r.must(err)
	r.insert(r.ctx, 0, "1", nil)
	r.must(r.collection(0).Drop(r.ctx))
	cfg := &r.src.cfg
	changes, err := cfg.watch(r.ctx, r.client, position{at: at.at + 1}, false)
	r.must(err)
	from := position{}
	for from.token == nil {
		if !changes.Next(r.ctx) {
			t.Fatalf("no invalidate came: %v", changes.Err())
		}
		if changes.Current.Lookup("operationType").StringValue() == "invalidate" {
			from.token = slices.Clone(changes.Current.Lookup("_id").Document())
		}
	}
	r.must(changes.Close(r.ctx))
	changes, err = cfg.watch(r.ctx, r.client, from, false)
	r.must(err)
	r.must(r.client.Database(cfg.Schema).RunCommand(r.ctx, bson.D{{Key: "killCursors", Value: cfg.Tables[0].Name},
		{Key: "cursors", Value: bson.A{changes.ID()}}}).Err())
	r.insert(r.ctx, 0, "2", nil)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	seen := ""
	st := &stream{cfg: cfg, source: r.src, client: r.client, start: source.Start{Log: 1}, from: from, oneShard: true,
		dec: decoder{maxMessage: 1 << 20}, batchState: batchState{done: at.at, reported: at.at},
		emit: func(_ context.Context, b *source.Batch) error {
			if seen += ids(b.Messages); seen != "" {
				cancel()
			}
			return nil
		}}
	table := &cfg.Tables[0]
	streamed, err := newStreamTable(table)
	r.must(err)
	st.tables = []streamTable{streamed}
	st.follow(ctx, changes)
	defer func() { st.feed.close(r.ctx) }() // the last one
	if err := st.read(ctx); seen != "2" {
		t.Fatalf("read %q, and then: %v", seen, err)
	}
}
