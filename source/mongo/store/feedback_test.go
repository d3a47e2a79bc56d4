package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/store/feedback"
	"github.com/tailbox/tailbox/test/servers"
)

// A fedRig is a rig whose delivered messages tell the collection orders, and counts what became of that.
type fedRig struct {
	*mongotest.Rig
	done, unchanged, failed int
	why                     error
}

func newFedRig(t *testing.T, delivered string) *fedRig {
	t.Helper()
	table := mongotest.Table("tailbox")
	table.OnDelivered = outbox.Mark
	table.Feedback = outbox.Feedback{outbox.OutcomeDelivered: delivered}
	r := &fedRig{Rig: newRig(t, servers.SharedMongo(t), table)}
	r.Config.Feedback = func(_, _ string, n int, why error) {
		switch {
		case why == nil:
			r.done += n
		case errors.Is(why, feedback.ErrUnchanged):
			r.unchanged += n
		default:
			r.failed, r.why = r.failed+n, why
		}
	}
	return r
}

// settle settles delivered documents with these payloads, whose ids are 0, 1, ...
func (r *fedRig) settle(payloads ...[]byte) {
	r.T.Helper()
	s := opened(r.Rig)
	in := &checkpoint.Settlement{}
	table := r.Config.Tables[0].String()
	for i, payload := range payloads {
		id := fmt.Sprint(i)
		_, err := r.Collection(0).InsertOne(r.Ctx, bson.D{{Key: "_id", Value: id}, {Key: "status", Value: "pending"}})
		r.Must(err)
		in.Rows = append(in.Rows, checkpoint.Row{Table: table, ID: id, Receipt: `{"why": "$secret"}`, Message: &outbox.Message{ID: id, Table: table, Payload: payload}})
	}
	out, err := s.Settle(r.Ctx, in)
	r.Must(err)
	mongotest.Equal(r.T, "documents that were not settled", out.Gone+len(out.Invisible), 0)
	n, err := r.Collection(0).CountDocuments(r.Ctx, bson.D{{Key: "status", Value: "delivered"}})
	r.Must(err)
	mongotest.Equal(r.T, "delivered", int(n), len(payloads))
}

func (r *fedRig) orders() *mongo.Collection {
	return r.Client.Database(r.Config.Schema).Collection("orders")
}

// An update that cannot be sent costs nothing but itself: the others are done, and all messages are settled.
func TestFeedbackThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for what, payload := range map[string][]byte{
		"larger than a document may be": fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), 17<<20)),
		"a key with a zero byte":        []byte(`{"a\u0000b": 1}`),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newFedRig(t, `{"collection": "orders", "filter": {"_id": ":id"}, "update": {"$set": {"body": ":payload:json"}}, "upsert": true}`)
			r.settle([]byte("1"), payload, []byte("2"))
			mongotest.Equal(t, "done", r.done, 2)
			mongotest.Equal(t, "failed", r.failed, 1)
			n, err := r.orders().CountDocuments(r.Ctx, bson.D{})
			r.Must(err)
			mongotest.Equal(t, "orders", n, 2)
		})
	}
}

// What the driver refuses is the fault of feedback; the end of the connection, or of the relay, is not.
func TestFeedbackIsToBlame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("the driver refuses it"), true},
		{mongo.CommandError{Code: conn.CodeValidation}, true},
		{fmt.Errorf("stop: %w", context.Canceled), false},
		{context.DeadlineExceeded, false},
		{mongo.ErrClientDisconnected, false},
		{mongo.CommandError{Labels: []string{"NetworkError"}}, false},
	} {
		u := &untold{}
		if got := u.blame(&feedbackError{err: c.err}); got != c.want || got != (u.all != nil) {
			t.Errorf("%v: got %v, and left out: %v; want %v", c.err, got, u.all, c.want)
		}
	}
}

// Updates that take too long are given up, and the messages are settled without them.
func TestFeedbackThatIsSlow(t *testing.T) {
	t.Parallel()
	r := newFedRig(t, `{"collection": "orders", "filter": {"id": ":id", "$expr": {"$function": {"lang": "js", "args": [],
		"body": "function() { for (const end = Date.now() + 100; Date.now() < end;); return false }"}}}, "update": {"$set": {"state": "done"}}}`)
	var docs []any
	for range 600 { // a minute's work
		docs = append(docs, bson.D{{Key: "id", Value: "0"}}, bson.D{{Key: "id", Value: "1"}})
	}
	_, err := r.orders().InsertMany(r.Ctx, docs)
	r.Must(err)
	began := time.Now()
	r.settle(nil, nil)
	if took := time.Since(began); took > operationTime/2 {
		t.Errorf("it took %v", took)
	}
	mongotest.Equal(t, "done", r.done, 0)
	mongotest.Equal(t, "failed", r.failed, 2)
	if !errors.Is(r.why, errFeedbackTime) {
		t.Errorf("failed: %v", r.why)
	}
	n, err := r.orders().CountDocuments(r.Ctx, bson.D{{Key: "state", Value: "done"}})
	r.Must(err)
	mongotest.Equal(t, "orders that are done", n, 0)
}

// An update that finds no document is counted by itself.
func TestFeedbackThatFindsNothing(t *testing.T) {
	t.Parallel()
	r := newFedRig(t, `{"collection": "orders", "filter": {"_id": ":id"}, "update": {"$set": {"state": "done"}}}`)
	_, err := r.orders().InsertOne(r.Ctx, bson.D{{Key: "_id", Value: "1"}})
	r.Must(err)
	r.settle(nil, nil, nil)
	mongotest.Equal(t, "done", r.done, 1)
	mongotest.Equal(t, "unchanged", r.unchanged, 2)
	mongotest.Equal(t, "failed", r.failed, 0)
}

// In a list of stages, and in $expr, a text that begins with a dollar would name a field.
func TestFeedbackOfStages(t *testing.T) {
	t.Parallel()
	const filter = `"filter": {"_id": ":id", "$expr": {"$ne": ["$secret", ":payload"]}}`
	for update, want := range map[string]any{
		`[{"$set": {"why": ":payload", "old": "$secret"}}, {"$unset": "n"}]`:                             "$secret",
		`[{"$set": {"why": {"$concat": ["<", ":payload", ">"]}, "old": "$secret"}}, {"$unset": "n"}]`:    "<$secret>",
		`[{"$set": {"why": {"$literal": ":payload"}, "old": "$secret"}}, {"$unset": ["n", ":outcome"]}]`: "$secret",
		`[{"$set": ":receipt:json"}, {"$set": {"old": "$secret"}}, {"$unset": ["n"]}]`:                   "$secret",
		`{"$set": {"why": ":payload", "old": "hidden"}, "$unset": {"n": ""}}`:                            "$secret",
	} {
		t.Run(update, func(t *testing.T) {
			t.Parallel()
			r := newFedRig(t, `{"collection": "orders", `+filter+`, "update": `+update+`}`)
			_, err := r.orders().InsertOne(r.Ctx, bson.D{{Key: "_id", Value: "0"}, {Key: "secret", Value: "hidden"}, {Key: "n", Value: 1}})
			r.Must(err)
			r.settle([]byte("$secret"))
			if r.failed > 0 {
				t.Errorf("failed: %v", r.why)
			}
			var got bson.M
			r.Must(r.orders().FindOne(r.Ctx, bson.D{}).Decode(&got))
			mongotest.Equal(t, "why", got["why"], want)
			mongotest.Equal(t, "old", got["old"], any("hidden"))
			mongotest.Equal(t, "n", got["n"], nil)
		})
	}
}
