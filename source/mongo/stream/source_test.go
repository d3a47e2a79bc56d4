package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/test/servers"
)

// Several collections, in one database and in two, come in the one order of their commits.
func TestSeveralCollections(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	for _, other := range []string{"shop", server.NewDatabase(t)} {
		one, two := mongotest.Table("debezium"), mongotest.Table("debezium")
		two.Schema, two.Name = other, "second"
		r := newRig(t, server, one, two)
		from := r.Establish()
		x := r.Read(source.Start{From: from, Log: 1})
		r.Insert(r.Ctx, 1, "1", nil)
		_, err := r.Client.Database(r.Config.Schema).Collection("third").InsertOne(r.Ctx, bson.D{{Key: "_id", Value: "stranger"}})
		r.Must(err)
		r.InTransaction(func(ctx context.Context) {
			for i := 2; i < 6; i++ {
				r.Insert(ctx, i%2, fmt.Sprint(i), nil)
			}
		})
		r.Insert(r.Ctx, 0, "6", nil)
		ms, _ := x.Messages(6)
		mongotest.Equal(t, "messages", mongotest.IDs(ms), "1 2 3 4 5 6")
		for i, want := range []int{1, 0, 1, 0, 1, 0} {
			mongotest.Equal(t, "table of "+ms[i].ID, ms[i].Table, r.Config.Tables[want].String())
		}
		for i := 1; i < 5; i++ {
			mongotest.Equal(t, "position of "+ms[i].ID, ms[i].Position, outbox.Position{Log: 1, Commit: ms[1].Position.Commit, N: uint32(i - 1)})
		}
	}
}

// A transaction of more than 16 MB is several entries of the oplog. It is one transaction all the same: in its order, with one
// commit, and with no place to resume inside.
func TestHugeTransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	from := r.Establish()
	payload := strings.Repeat("x", 100<<10)
	const n = 400
	r.InTransaction(func(ctx context.Context) {
		for i := range n {
			r.Insert(ctx, 0, int32(i), payload)
		}
	})
	r.Insert(r.Ctx, 0, int32(n), nil)
	x := r.Read(source.Start{From: from})
	seen, resumes := 0, 0
	for seen <= n {
		b := x.Next()
		for _, m := range b.Messages {
			want := outbox.Position{N: uint32(seen)}
			if seen < n && (m.ID != fmt.Sprint(seen) || m.Position.N != want.N) {
				t.Fatalf("message %d is %s at %s", seen, m.ID, m.Position)
			}
			seen++
		}
		if seen < n && seen > 0 && (b.Resume != "" || len(b.Marks) > 0) {
			resumes++
		}
	}
	mongotest.Equal(t, "places to resume inside", resumes, 0)
}

// A document that nearly fills 16 MB, and whose id is part of the event more than once, makes an event that the server cannot
// send. It is read from the table, and what comes before and after it is as ever.
func TestLargeDocument(t *testing.T) {
	t.Parallel()
	table := mongotest.Table("debezium")
	table.Columns.ID = "name"
	r := newRig(t, servers.SharedMongo(t), table)
	from := r.Establish()
	long := strings.Repeat("l", 8<<10)
	large := bytes.Repeat([]byte{7}, 16<<20-len(long)-200)
	insert := func(name string, payload any) {
		_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "_id", Value: name + long}, {Key: "name", Value: name}, {Key: "type", Value: "T"},
			{Key: "payload", Value: payload}})
		r.Must(err)
	}
	for i := range 3 {
		insert(fmt.Sprint("before", i), nil)
	}
	insert("large", large)
	insert("gone", large)
	_, err := r.Collection(0).DeleteOne(r.Ctx, bson.D{{Key: "_id", Value: "gone" + long}})
	r.Must(err)
	insert("after", nil)
	x := r.Read(source.Start{From: from})
	ms, _ := x.Messages(6)
	mongotest.Equal(t, "messages", mongotest.IDs(ms), "before0 before1 before2 large "+outbox.StandInID(ms[4].Position.String())+" after")
	if m := ms[3]; m.Fault != nil || !bytes.Equal(m.Payload, large) {
		t.Errorf("the large one: %d bytes, fault %+v", len(m.Payload), m.Fault)
	}
	if m := ms[4]; m.Fault == nil || m.Fault.Class != outbox.FaultTooLarge {
		t.Errorf("the one that is gone: fault %+v", m.Fault)
	}
	insert("later", nil)
	ms, _ = x.Messages(1)
	mongotest.Equal(t, "later", mongotest.IDs(ms), "later")
}

// The driver resumes the stream through a restart of the server, or Run ends and is called again: nothing is missing, nothing
// comes twice, positions go on.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Mongo(t), mongotest.Table("debezium"))
	from := r.Establish()
	x := r.Read(source.Start{From: from})
	messages := func(n int) (ms []*outbox.Message) {
		for {
			b := x.Next()
			if b == nil {
				if err := <-x.Done; err == nil || errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrGap) {
					t.Fatalf("Run ended: %v", err)
				}
				x, ms = r.Read(source.Start{From: from}), nil
				continue
			}
			if ms = append(ms, b.Messages...); len(ms) > n {
				t.Fatalf("got %d messages, want %d", len(ms), n)
			}
			if b.Resume != "" {
				from = b.Resume
			}
			if len(ms) == n && b.Resume != "" {
				return ms
			}
		}
	}
	for i := range 3 {
		r.InTransaction(func(ctx context.Context) {
			for n := range 3 {
				r.Insert(ctx, 0, fmt.Sprintf("%d%d", i, n), nil)
			}
		})
		ms := messages(3)
		mongotest.Equal(t, "messages", mongotest.IDs(ms), fmt.Sprintf("%d0 %[1]d1 %[1]d2", i))
		mongotest.Equal(t, "first", ms[0].Position.N, uint32(0))
		if i == 0 {
			r.Must(r.Server.Kill())
			r.Must(r.Server.Start())
		} else {
			r.Must(r.Server.Restart())
		}
	}
}

// So it does through connections that are cut in the middle of an answer.
func TestCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	from := r.Establish()
	const n = 2000
	payload := strings.Repeat("x", 2000)
	for i := range n / 100 {
		r.InTransaction(func(ctx context.Context) {
			for k := range 100 {
				r.Insert(ctx, 0, int32(i*100+k), payload)
			}
		})
	}
	proxy := servers.NewProxy(t, r.Server.Addr())
	r.Config.URL = r.Server.URLThrough(proxy)
	r.Source = New(r.Config)
	var seen []*outbox.Message
	for cuts := 0; len(seen) < n; {
		proxy.CutAnswersAfter(int64(300_000 * (cuts + 1)))
		x := r.Read(source.Start{From: from, Log: 1})
		for b := x.Next(); b != nil && len(seen) < n; b = x.Next() {
			if seen = append(seen, b.Messages...); len(seen) > n*(cuts+1)/5 && cuts < 4 {
				cuts++
				proxy.Reset()
			}
			if b.Resume != "" {
				from = b.Resume
			}
		}
		x.Cancel()
		if err := <-x.Done; errors.Is(err, source.ErrGap) || errors.Is(err, source.ErrStop) {
			t.Fatal(err)
		}
		for len(seen) > 0 && len(seen) < n && placeOf(t, from).At < oplog.Time(seen[len(seen)-1].Position.Commit) {
			seen = seen[:len(seen)-1] // it comes again
		}
	}
	for i, m := range seen {
		if m.ID != fmt.Sprint(i) || m.Position.N != uint32(i%100) {
			t.Fatalf("message %d is %s at %s", i, m.ID, m.Position)
		}
	}
}

// Other tables make the same documents count in another way, so positions get a new Log, and what was settled beyond the
// checkpoint is read again.
func TestExamineOtherTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	from := r.Establish()
	was, err := r.Source.Examine(r.Ctx, "", "")
	r.Must(err)
	second := r.Config.Tables[0]
	second.Name = "second"
	r.Config.Tables = append(r.Config.Tables[:1:1], second)
	e, err := New(r.Config).Examine(r.Ctx, was.SourceID, from)
	r.Must(err)
	if e.Lost != "" || !e.Moved || e.Shared != 0 || e.SourceID == was.SourceID {
		t.Errorf("got %+v, was %+v", *e, *was)
	}
	if e, err := r.Source.Examine(r.Ctx, was.SourceID, oplog.Place{At: oplog.TimeOf(1<<32-1, 1)}.Resume()); err != nil || e.Lost == "" {
		t.Errorf("a position beyond the log: %+v, %v, want it lost", e, err)
	}
}

func placeOf(t *testing.T, r source.Resume) oplog.Place {
	t.Helper()
	p, err := oplog.ParsePlace(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A copy of a server's files that was made another replica set has the same collections, and a change stream opens in it from any
// time; what was written before the set was made is in no log. Where the user may see the oplog, that is a lost position.
func TestAnotherReplicaSetIsAGap(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t)
	r := newRig(t, server, mongotest.Table("debezium"))
	own, err := r.Source.Examine(r.Ctx, "", "")
	r.Must(err)
	from := r.Establish()
	r.Insert(r.Ctx, 0, "1", nil)
	lost := func(why string, want bool) {
		t.Helper()
		e, err := r.Source.Examine(r.Ctx, own.SourceID, from)
		if err != nil || e.SourceID != own.SourceID || (e.Lost != "") != want {
			t.Errorf("examined %s: %+v, %v, want it lost: %v", why, e, err, want)
		}
	}
	lost("the position of the same set", false)
	r.Must(server.Stop())
	r.Must(server.Forget())
	r.Must(server.Start())
	lost("the position of another set", true)
}
