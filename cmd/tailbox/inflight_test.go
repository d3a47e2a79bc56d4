package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/test/servers"
)

const inflightConfig = `
pipeline: shop
source: {kind: KIND, url: "${DATABASE_URL}", reconcile: 1h, tables: [{name: events, shape: tailbox, columns: {key: ~, topic: ~}, words: {pending: PENDING, delivered: DONE, retrying: AGAIN, waiting: AGAIN, dead: FAILED}}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestInFlight: rows that another program had in flight when tailbox took its table over are named by check and init, and are delivered when their words
// are listed as pending.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const ddl = "CREATE TABLE events (id VARCHAR(36) PRIMARY KEY, type VARCHAR(99), payload VARCHAR(99), status VARCHAR(20))"
	words := []string{"PENDING", "PROCESSING", "PROCESSING", "AGAIN", "DONE", "FAILED"}
	for _, kind := range append([]string{"postgres", "mongodb"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var insert []string
			for i, word := range words {
				insert = append(insert, fmt.Sprintf("INSERT INTO events (id, type, payload, status) VALUES ('%d', '%s%[1]d', '{}', '%[2]s')", i, word))
			}
			extra := ""
			var r *rig
			switch kind {
			case "postgres":
				r = newRig(t, "")
				for _, sql := range append([]string{ddl}, insert...) {
					r.sql(sql)
				}
				extra = `slot: "${SLOT}", `
			case "mongodb":
				server := servers.SharedMongo(t)
				db := server.Client(t).Database(server.NewDatabase(t))
				for i, word := range words {
					if _, err := db.Collection("events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: fmt.Sprint(i)}, {Key: "type", Value: fmt.Sprint(word, i)},
						{Key: "payload", Value: "{}"}, {Key: "status", Value: word}}); err != nil {
						t.Fatal(err)
					}
				}
				r = &rig{t: t, file: write(t, "tailbox.yaml", ""), env: map[string]string{"DATABASE_URL": server.URL()}}
				extra = fmt.Sprintf("schema: %q, ", db.Name())
			default:
				server := servers.SharedMySQL(t, kind)
				name := server.NewDatabase(t)
				if err := server.Exec(t.Context(), name, append([]string{ddl}, insert...)...); err != nil {
					t.Fatal(err)
				}
				r = &rig{t: t, file: write(t, "tailbox.yaml", ""), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}}
			}
			r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
			configure := func(pending string) {
				writeFile(t, r.file, strings.NewReplacer("KIND", kind, "reconcile", extra+"reconcile", "pending: PENDING", "pending: "+pending).Replace(inflightConfig))
			}
			configure("PENDING")
			if got := r.command("check"); !strings.Contains(got.out, "AGAIN: 1, FAILED: 1, PROCESSING: 2") || !strings.Contains(got.out, "words: {pending: [PENDING, …]}") {
				t.Errorf("check: %+v", got)
			}
			configure("[PENDING, PROCESSING]")
			if got := r.command("init"); got.code != exitDone || !strings.Contains(got.err, "does not deliver: AGAIN: 1;") {
				t.Errorf("init: %+v", got)
			}
			configure("[PENDING, PROCESSING, AGAIN]")
			stop := r.relay()
			until(t, "the rows in flight", func() bool { return len(r.delivered()) == 4 })
			if got := stop(); got.code != exitDone {
				t.Errorf("run: %+v", got)
			}
			got := r.delivered()
			slices.Sort(got)
			if !slices.Equal(got, []string{"AGAIN3", "PENDING0", "PROCESSING1", "PROCESSING2"}) {
				t.Errorf("delivered %v", got)
			}
			if got := r.command("check"); strings.Contains(got.out, "does not deliver") {
				t.Errorf("check once all is delivered: %+v", got)
			}
		})
	}
}
