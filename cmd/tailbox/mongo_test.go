package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/test/servers"
)

const mongoConfig = `
pipeline: shop
source: {kind: mongodb, url: "${DATABASE_URL}", schema: "${DATABASE}", reconcile: 0s, tables: [{shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}, hook: {kind: http, url: "${HOOK}", format: single}}
routes: [{match: {type: hooked}, to: [hook]}, {to: [out]}]
admin: {listen: off}
`

// TestMongoDB goes through all commands with MongoDB as the source.
func TestMongoDB(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	name := server.NewDatabase(t)
	var accepting atomic.Bool
	var body atomic.Value
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || !accepting.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body.Store(string(text))
	}))
	defer hook.Close()
	r := &rig{t: t, file: write(t, "tailbox.yaml", mongoConfig), env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": name, "HOOK": hook.URL}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")

	if out := r.must("init", "--print"); !strings.Contains(out, "createIndex") {
		t.Errorf("init --print: %s", out)
	}
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, "run tailbox init") {
		t.Errorf("check before init: %+v", got)
	}
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "run tailbox init") {
		t.Errorf("run before init: %+v", got)
	}
	if out := r.must("init"); !strings.Contains(out, "created the first checkpoint: ") {
		t.Errorf("init: %s", out)
	}
	r.must("check")
	stop := r.relay()
	r.must("send", "--type", "first", "--group", "g", `{"n": 1}`)
	_, err := server.Client(t).Database(name).Collection("outbox").InsertOne(t.Context(), bson.D{{Key: "type", Value: "hooked"}, {Key: "message_group", Value: "g"},
		{Key: "payload", Value: bson.D{{Key: "id", Value: bson.NewObjectID()}, {Key: "n", Value: 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the first message", func() bool { return len(r.delivered()) == 1 })
	until(t, "the dead letter", func() bool { return strings.Contains(r.must("dead", "list"), "hooked") })
	r.mustListBare()
	if out := r.must("status"); !strings.Contains(out, "mongodb 6.") || !strings.Contains(out, "running at ") {
		t.Errorf("status: %s", out)
	}
	if out := r.must("group", "list"); !strings.Contains(out, "hook") {
		t.Errorf("group list: %s", out)
	}
	accepting.Store(true)
	r.must("dead", "replay", "--all")
	until(t, "the replayed message", func() bool { return body.Load() != nil })
	if text, _ := body.Load().(string); !strings.HasPrefix(text, `{"id":{"$oid":"`) || !strings.HasSuffix(text, `"n":2}`) {
		t.Errorf("the hook got %s", text)
	}
	until(t, "nothing parked", func() bool {
		return !strings.Contains(r.must("dead", "list", "--state", "dead,retrying,waiting"), "hooked")
	})
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	// While nothing runs, requests are carried out by the command, and the next start goes on where this one ended.
	r.must("sink", "pause", "out")
	r.must("send", "--type", "second", "--group", "g", "{}")
	stop = r.relay()
	until(t, "the relay holds the lease", func() bool { return strings.Contains(r.must("status"), "running ") })
	if got := r.command("accept-gap", "--unreadable", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "a relay is running") {
		t.Errorf("accept-gap beside a relay: %+v", got)
	}
	r.must("sink", "resume", "out")
	until(t, "the second message", func() bool { return strings.Join(r.delivered(), " ") == "first second" })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	left, err := server.Client(t).Database(name).Collection("outbox").CountDocuments(t.Context(), bson.D{{Key: "status", Value: "delivered"}})
	if err != nil || left != 3 {
		t.Errorf("delivered documents: %d, %v", left, err)
	}
	if got := r.command("accept-gap", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "there is no gap") {
		t.Errorf("accept-gap: %+v", got)
	}
	r.must("uninstall", "--print")
	r.must("uninstall")
}

const mongoDropConfig = `
pipeline: shop
source: {kind: mongodb, url: "${DATABASE_URL}", schema: "${DATABASE}", reconcile: 0s}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestMongoDBDropped: a collection that takes the place of one that was dropped is read on; where none does, the relay stops with the
// fix, and goes on once it was followed.
func TestMongoDBDropped(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	name := server.NewDatabase(t)
	r := &rig{t: t, file: write(t, "tailbox.yaml", mongoDropConfig), env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": name}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	outbox := server.Client(t).Database(name).Collection("outbox")
	send := func(kind string) { r.must("send", "--type", kind, "--topic", "order", "--key", "1", "{}") }
	got := func(want string) func() bool {
		return func() bool { return strings.Join(r.delivered(), " ") == want }
	}
	r.must("init")
	stop := r.relay()
	send("first")
	until(t, "the first message", got("first"))
	stop()
	if err := outbox.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	send("second") // makes it anew
	ended := make(chan result, 1)
	go func() { ended <- r.command("run") }()
	until(t, "the second message", got("first second"))
	if err := outbox.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := <-ended; end.code != exitFailed || !strings.Contains(end.err, "tailbox init") {
		t.Errorf("run: %+v", end)
	}
	if end := r.command("run"); end.code != exitFailed || !strings.Contains(end.err, "tailbox init") {
		t.Errorf("run without the collection: %+v", end)
	}
	r.must("init")
	stop = r.relay()
	send("third")
	until(t, "the third message", got("first second third"))
	stop()
}
