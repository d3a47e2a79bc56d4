package main

import (
	"context"
	"fmt"
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

// flagsConfig is that of a table with two booleans: processed, and blocked for what was given up. Its topic is the group, and * means none.
const flagsConfig = `
pipeline: flags
source:
  kind: ${KIND}
  url: "${DATABASE_URL}"
  reconcile: 200ms
  tables:
  - name: jobs
    shape: tailbox
    columns: {id: id, type: "${header.kind}", headers: meta, group: topic, topic: null, key: null, payload: invocation, status: processed, attempts: attempts}
    words: {pending: false, retrying: false, waiting: false, dead: false, delivered: true}
    set:
      dead: {blocked: true, finished: now, note: gave up}
      delivered: {blocked: false, finished: now, note: null}
    ungrouped: "*"
    headers: {deny: [kind]}
sinks: {out: {kind: http, url: "${HOOK}", format: single}}
retry: {attempts: 1}
admin: {listen: off}
`

// A flagged is a table with flags in one kind of database.
type flagged struct {
	*rig
	insert func(id, topic, typ string, blocked bool)
	// shows is "processed blocked finished note attempts" of a row.
	shows func(id string) string
}

// TestFlags: two booleans tell what became of a row; an operator's replay takes the flag back.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres", "mongodb"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testFlags(t, kind)
		})
	}
}

func testFlags(t *testing.T, kind string) {
	var accepting atomic.Bool
	var got atomic.Value
	got.Store("")
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "bad") && !accepting.Load() {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		got.Store(fmt.Sprintf("%s%s:%s:%s:%s ", got.Load(), r.Header.Get("tailbox-type"), r.Header.Get("tailbox-group"), r.Header.Get("kind"), body))
	}))
	t.Cleanup(hook.Close)
	f := newFlagged(t, kind)
	f.env["HOOK"] = hook.URL
	f.insert("before", "g", "Old", true)
	f.must("init")
	f.must("check")
	stop := f.relay()
	f.insert("1", "g", "Paid", false)
	until(t, "the first", func() bool { return f.shows("1") == "true false true none 1" })
	f.insert("bad", "g", "Paid", false)
	until(t, "the dead letter", func() bool { return f.shows("bad") == "false true true gave up 1" })
	f.insert("2", "g", "Paid", false) // waits behind it
	f.insert("3", "*", "Sent", false)
	until(t, "one without a group", func() bool { return f.shows("3") == "true false true none 1" })
	if s := f.shows("2"); s != "false false false none 0" {
		t.Errorf("the row that waits: %s", s)
	}
	accepting.Store(true)
	f.must("dead", "replay", "bad")
	until(t, "the last", func() bool { return f.shows("2") == "true false true none 1" })
	if s := f.shows("bad"); !strings.HasPrefix(s, "true false true none ") {
		t.Errorf("the row that was dead: %s", s)
	}
	if s := f.shows("before"); !strings.HasPrefix(s, "false true") {
		t.Errorf("a row that another program gave up: %s", s)
	}
	if ended := stop(); ended.code != exitDone {
		t.Errorf("run: %+v", ended)
	}
	if s := fmt.Sprint(got.Load()); s != `Paid:g::{"of":"1"} Sent:::{"of":"3"} Paid:g::{"of":"bad"} Paid:g::{"of":"2"} ` {
		t.Errorf("delivered %s", s)
	}
}

func newFlagged(t *testing.T, kind string) *flagged {
	t.Helper()
	text := flagsConfig
	switch kind {
	case "postgres":
		f := &flagged{rig: newRig(t, strings.Replace(text, "reconcile", "slot: \"${SLOT}\"\n  start: pending\n  reconcile", 1))}
		f.env["KIND"] = kind
		f.sql(`CREATE TABLE jobs (id text PRIMARY KEY, topic text NOT NULL, meta bytea NOT NULL, invocation text NOT NULL, processed boolean NOT NULL DEFAULT false,
			blocked boolean NOT NULL DEFAULT false, finished timestamp, note varchar(20), attempts int NOT NULL DEFAULT 0)`)
		f.insert = func(id, topic, typ string, blocked bool) {
			f.sql(`INSERT INTO jobs (id, topic, meta, invocation, blocked) VALUES ($1, $2, convert_to($3, 'UTF8'), $4, $5)`, id, topic, `{"kind": "`+typ+`"}`, `{"of":"`+id+`"}`, blocked)
		}
		f.shows = func(id string) string {
			return f.ask(`SELECT concat_ws(' ', processed::text, blocked::text, (finished IS NOT NULL)::text, coalesce(note, 'none'), attempts) FROM jobs WHERE id = $1`, id)
		}
		return f
	case "mongodb":
		server := servers.SharedMongo(t)
		name := server.NewDatabase(t)
		text = strings.Replace(text, "reconcile", "schema: "+name+"\n  reconcile", 1)
		f := &flagged{rig: &rig{t: t, file: write(t, "tailbox.yaml", text), env: map[string]string{"DATABASE_URL": server.URL(), "KIND": kind}}}
		coll := server.Client(t).Database(name).Collection("jobs")
		f.insert = func(id, topic, typ string, blocked bool) {
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "id", Value: id}, {Key: "topic", Value: topic}, {Key: "meta", Value: bson.D{{Key: "kind", Value: typ}}},
				{Key: "invocation", Value: `{"of":"` + id + `"}`}, {Key: "processed", Value: false}, {Key: "blocked", Value: blocked}, {Key: "attempts", Value: 0}}); err != nil {
				t.Fatal(err)
			}
		}
		f.shows = func(id string) string {
			var d struct {
				Processed, Blocked bool
				Finished           any
				Note               *string
				Attempts           int
			}
			if err := coll.FindOne(t.Context(), bson.D{{Key: "id", Value: id}}).Decode(&d); err != nil {
				t.Fatal(err)
			}
			note := "none"
			if d.Note != nil {
				note = *d.Note
			}
			return fmt.Sprint(d.Processed, " ", d.Blocked, " ", d.Finished != nil, " ", note, " ", d.Attempts)
		}
		return f
	}
	server := servers.SharedMySQL(t, kind)
	name := server.NewDatabase(t)
	text = strings.NewReplacer("pending: false", "pending: 0", "retrying: false", "retrying: 0", "waiting: false", "waiting: 0", "dead: false", "dead: 0", "delivered: true", "delivered: 1").Replace(text)
	f := &flagged{rig: &rig{t: t, file: write(t, "tailbox.yaml", text), env: map[string]string{"DATABASE_URL": server.SocketURL(name), "KIND": kind}}}
	f.lines = filepath.Join(filepath.Dir(f.file), "lines.json")
	exec := func(sql string) {
		if err := server.Exec(t.Context(), name, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE jobs (id varchar(30) PRIMARY KEY, topic varchar(30) NOT NULL, meta blob NOT NULL, invocation text NOT NULL, processed boolean NOT NULL DEFAULT false,
		blocked boolean NOT NULL DEFAULT false, finished datetime(6), note varchar(20), attempts int NOT NULL DEFAULT 0)`)
	f.insert = func(id, topic, typ string, blocked bool) {
		exec(fmt.Sprintf(`INSERT INTO jobs (id, topic, meta, invocation, blocked) VALUES ('%s', '%s', '{"kind": "%s"}', '{"of":"%[1]s"}', %[4]t)`, id, topic, typ, blocked))
	}
	conn, err := server.Connect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f.shows = func(id string) string {
		r, err := conn.Execute(`SELECT CONCAT_WS(' ', IF(processed, 'true', 'false'), IF(blocked, 'true', 'false'), IF(finished IS NULL, 'false', 'true'), COALESCE(note, 'none'), attempts)
			FROM jobs WHERE id = ?`, id)
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.GetString(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return f
}
