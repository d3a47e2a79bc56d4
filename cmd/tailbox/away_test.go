package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/test/servers"
)

const awayConfig = `
pipeline: shop
source: {kind: "${KIND}", url: "${DATABASE_URL}", reconcile: 1h, tables: [{shape: tailbox}]EXTRA}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestTableAway: who alters a table by one statement after the other has it away for a moment. The relay waits for it, and delivers what
// was written before and afterwards.
func TestTableAway(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		for read, extra := range map[string]string{"log": "", "poll": ", read: poll"} {
			t.Run(kind+"/"+read, func(t *testing.T) {
				t.Parallel()
				const insert = "INSERT INTO outbox (type, payload) VALUES "
				config := strings.Replace(awayConfig, "EXTRA", extra, 1)
				var r *rig
				var exec func(statements ...string)
				if kind == "postgres" && read == "log" {
					r = newRig(t, strings.Replace(config, "reconcile", `slot: "${SLOT}", reconcile`, 1))
					exec = func(statements ...string) {
						for _, sql := range statements {
							r.sql(sql)
						}
					}
				} else {
					r = &rig{t: t, file: write(t, "tailbox.yaml", config), env: map[string]string{}}
					r.env["DATABASE_URL"], exec = pollDatabase(t, kind)
				}
				r.env["KIND"] = kind
				want := "before meanwhile after"
				if kind != "postgres" && read == "log" { // which has what was written meanwhile under the other name
					want = "before after"
				}
				testTableAway(t, r, func() { exec(insert + "('before', '{}')") },
					func() {
						exec("ALTER TABLE outbox RENAME TO gone", "INSERT INTO gone (type, payload) VALUES ('meanwhile', '{}')")
					},
					func() { exec("ALTER TABLE gone RENAME TO outbox", insert+"('after', '{}')") }, want)
			})
		}
	}
	t.Run("mongodb", func(t *testing.T) {
		t.Parallel()
		server := servers.SharedMongo(t)
		db := server.Client(t).Database(server.NewDatabase(t))
		r := &rig{t: t, file: write(t, "tailbox.yaml", strings.Replace(awayConfig, "EXTRA", `, schema: "${DATABASE}"`, 1)),
			env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": db.Name(), "KIND": "mongodb"}}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		insert := func(typ string) {
			_, err := db.Collection("outbox").InsertOne(t.Context(), bson.D{{Key: "type", Value: typ}, {Key: "payload", Value: "{}"}})
			must(err)
		}
		testTableAway(t, r, func() { insert("before") }, func() { must(db.Collection("outbox").Drop(t.Context())) },
			func() { insert("after") }, "before after")
	})
}

func testTableAway(t *testing.T, r *rig, before, away, back func(), want string) {
	t.Helper()
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	r.must("init")
	stop := r.relay()
	before()
	until(t, "the first message", func() bool { return strings.Join(r.delivered(), " ") == "before" })
	stop() // that one is settled
	stop = r.relay()
	running := func() bool { // with poll, status itself looks at the table
		got := r.command("status")
		return got.code == exitDone && !strings.Contains(got.out, "not running")
	}
	until(t, "the relay to run", running)
	away()
	until(t, "the relay to miss its table", func() bool { return !running() })
	back()
	until(t, "all messages", func() bool { return strings.Join(r.delivered(), " ") == want })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}
