package main

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/test/servers"
)

const nearConfig = `
pipeline: shop
source: {kind: "${KIND}", url: "${DATABASE_URL}", reconcile: 0s, tables: [{name: "${TABLE}", shape: tailbox, columns: "${COLUMNS}"}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestNearName: a table whose name is written in other letters is not made a second time, nor one whose columns have names of their own, unless that is
// asked for.
func TestNearName(t *testing.T) {
	t.Parallel()
	const ddl = "CREATE TABLE txno_outbox (id VARCHAR(36) PRIMARY KEY, type VARCHAR(99), payload VARCHAR(99), status VARCHAR(20) DEFAULT 'pending')"
	for _, kind := range append([]string{"postgres", "mongodb"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			extra := ""
			var r *rig
			switch kind {
			case "postgres":
				r = newRig(t, "")
				r.sql(ddl)
				extra = `slot: "${SLOT}", `
			case "mongodb":
				server := servers.SharedMongo(t)
				db := server.Client(t).Database(server.NewDatabase(t))
				if _, err := db.Collection("txno_outbox").InsertOne(t.Context(), bson.D{{Key: "type", Value: "T"}}); err != nil {
					t.Fatal(err)
				}
				r = &rig{t: t, file: write(t, "tailbox.yaml", ""), env: map[string]string{"DATABASE_URL": server.URL()}}
				extra = fmt.Sprintf("schema: %q, ", db.Name())
			default:
				server := servers.SharedMySQL(t, kind)
				name := server.NewDatabase(t)
				if err := server.Exec(t.Context(), name, ddl); err != nil {
					t.Fatal(err)
				}
				r = &rig{t: t, file: write(t, "tailbox.yaml", ""), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}}
			}
			configure := func(table, columns string) {
				text := strings.NewReplacer(`"${KIND}"`, kind, `"${TABLE}"`, table, `"${COLUMNS}"`, columns, "reconcile", extra+"reconcile").Replace(nearConfig)
				writeFile(t, r.file, text)
			}
			for table, near := range map[string]string{"TXNO_OUTBOX": "txno_outbox", "TxnoOutbox": "txno_outbox", "txno_outbx": "txno_outbox"} {
				configure(table, "{}")
				if got := r.command("init"); got.code != exitAct || !strings.Contains(got.err, "did you mean "+near) || !strings.Contains(got.err, "--create-table") {
					t.Errorf("init of %s: %+v", table, got)
				}
			}
			configure("events", "{payload: body}")
			if got := r.command("init"); got.code != exitAct || !strings.Contains(got.err, "columns.payload") || !strings.Contains(got.err, "--create-table") {
				t.Errorf("init of a table with columns of its own: %+v", got)
			}
			if out := r.must("init", "--create-table"); !strings.Contains(out, "events") {
				t.Errorf("init --create-table: %s", out)
			}
		})
	}
}

// TestColumnInOtherLetters: check names a column that the table has in other letters only.
func TestColumnInOtherLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(rigConfig, "reconcile: 0s", `reconcile: 0s, tables: [{name: events, shape: tailbox, columns: {attempts: Retries}}]`, 1))
	r.sql(`CREATE TABLE events (id uuid PRIMARY KEY, type text, payload text, status text DEFAULT 'pending', retries int, "Topic" text)`)
	got := r.command("check")
	for _, want := range []string{"has no column Retries, but retries", "has no column topic, but Topic"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check does not say %q:\n%s", want, got.out)
		}
	}
}
