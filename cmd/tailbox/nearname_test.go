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
				if got := r.command("init"); got.code != exitAct || !strings.Contains(got.err, "did you mean "+near) || !strings.Contains(got.err, "--create-table") ||
					strings.Contains(got.err, " ."+table) {
					t.Errorf("init of %s: %+v", table, got)
				}
				if got := r.command("check"); !strings.Contains(got.out, "does not exist (did you mean "+near+"?)") || !strings.Contains(got.out, "tailbox init --create-table") {
					t.Errorf("check of %s: %+v", table, got)
				}
				if kind == "mongodb" {
					continue
				}
				if got := r.command("init", "--from-table", table); got.code == 0 || !strings.Contains(got.err, "there is no table "+table+" (did you mean "+near+"?)") {
					t.Errorf("init --from-table %s: %+v", table, got)
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

// TestDotInName: a table whose own name holds a dot is found if it is quoted, and the error says so if it is not.
func TestDotInName(t *testing.T) {
	t.Parallel()
	const ddl = "CREATE TABLE %s (id VARCHAR(36) PRIMARY KEY, type VARCHAR(99), payload VARCHAR(99))"
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var r *rig
			if kind == "postgres" {
				r = newRig(t, "")
				r.sql(fmt.Sprintf(ddl, `"cap.published"`))
			} else {
				server := servers.SharedMySQL(t, kind)
				name := server.NewDatabase(t)
				if err := server.Exec(t.Context(), name, fmt.Sprintf(ddl, "`cap.published`")); err != nil {
					t.Fatal(err)
				}
				r = &rig{t: t, file: write(t, "tailbox.yaml", ""), env: map[string]string{"DATABASE_URL": server.SocketURL(name)}}
			}
			writeFile(t, r.file, strings.NewReplacer(`"${KIND}"`, kind, `"${TABLE}"`, "events", `"${COLUMNS}"`, "{}").Replace(nearConfig))
			if got := r.command("init", "--from-table", "cap.published"); !strings.Contains(got.err, `there is no table cap.published (did you mean '"cap.published"'?)`) {
				t.Errorf("without quotes: %+v", got)
			}
			if got := r.command("init", "--from-table", `"Cap.published"`); !strings.Contains(got.err, `there is no table Cap.published (did you mean '"cap.published"'?)`) {
				t.Errorf("in other letters: %+v", got)
			}
			if out := r.must("init", "--from-table", `"cap.published"`); !strings.Contains(out, "payload") {
				t.Errorf("quoted: %s", out)
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
