package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/test/servers"
)

// TestRefusedRow: a row that the database refuses to mark stops nothing. The others are marked, nothing is delivered again, and the row is marked
// once the database lets it be.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, strings.Replace(strings.Replace(awayConfig, "EXTRA", "", 1), "reconcile", `slot: "${SLOT}", reconcile`, 1))
		r.env["KIND"] = "postgres"
		testRefusedRow(t, r, refusedRow{
			insert: func(typ string) { r.sql("INSERT INTO outbox (type, payload) VALUES ($1, '{}')", typ) },
			refuse: func() {
				r.sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF OLD.type = 'bad' THEN RAISE 'not this one'; END IF; RETURN NEW; END $$`)
				r.sql("CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()")
			},
			mend:    func() { r.sql("DROP TRIGGER refuse ON outbox") },
			pending: func() string { return r.ask("SELECT count(*)::text FROM outbox WHERE status = 'pending'") },
		})
	})
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := servers.SharedMySQL(t, kind)
			name := server.NewDatabase(t)
			conn, err := server.Connect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			exec := func(sql string) string {
				t.Helper()
				res, err := conn.Execute(sql)
				if err != nil {
					t.Fatal(err)
				}
				if res.RowNumber() == 0 {
					return ""
				}
				text, err := res.GetString(0, 0)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			r := &rig{t: t, file: write(t, "tailbox.yaml", strings.Replace(awayConfig, "EXTRA", "", 1)),
				env: map[string]string{"DATABASE_URL": server.SocketURL(name), "KIND": kind}}
			testRefusedRow(t, r, refusedRow{
				insert: func(typ string) { exec("INSERT INTO outbox (type, payload) VALUES ('" + typ + "', '{}')") },
				refuse: func() {
					exec(`CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW BEGIN
						IF OLD.type = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF; END`)
				},
				mend:    func() { exec("DROP TRIGGER refuse") },
				pending: func() string { return exec("SELECT COUNT(*) FROM outbox WHERE status = 'pending'") },
			})
		})
	}
	t.Run("mongodb", func(t *testing.T) {
		t.Parallel()
		server := servers.SharedMongo(t)
		outbox := server.Client(t).Database(server.NewDatabase(t)).Collection("outbox")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		r := &rig{t: t, file: write(t, "tailbox.yaml", strings.Replace(awayConfig, "EXTRA", `, schema: "${DATABASE}"`, 1)),
			env: map[string]string{"DATABASE_URL": server.URL(), "DATABASE": outbox.Database().Name(), "KIND": "mongodb"}}
		insert := func(typ string) {
			_, err := outbox.InsertOne(t.Context(), bson.D{{Key: "type", Value: typ}, {Key: "payload", Value: "{}"}})
			must(err)
		}
		testRefusedRow(t, r, refusedRow{
			insert: insert,
			refuse: func() { // one of that type can be delivered, and not two
				_, err := outbox.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "status", Value: 1}}, Options: options.Index().SetName("refuse").
					SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "type", Value: "bad"}, {Key: "status", Value: "delivered"}})})
				must(err)
				insert("bad")
			},
			mend: func() { must(outbox.Indexes().DropOne(t.Context(), "refuse")) },
			pending: func() string {
				n, err := outbox.CountDocuments(t.Context(), bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "delivered"}}}})
				must(err)
				return strconv.FormatInt(n, 10)
			},
		})
	})
}

// A refusedRow is a table of whose rows one of type bad can be refused.
type refusedRow struct {
	insert       func(typ string)
	refuse, mend func()
	pending      func() string
}

func testRefusedRow(t *testing.T, r *rig, row refusedRow) {
	t.Helper()
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	r.must("init")
	row.refuse()
	for i := range 40 {
		row.insert(map[bool]string{true: "bad", false: fmt.Sprint("t", i)}[i == 20])
	}
	delivered := 0
	for start := range 3 {
		stop := r.relay()
		row.insert(fmt.Sprint("later", start))
		if start == 0 {
			until(t, "all but the row that is refused", func() bool { return row.pending() == "1" })
			delivered = len(r.delivered()) - 1
		}
		until(t, "what is written later", func() bool { return row.pending() == "1" && len(r.delivered()) == delivered+start+1 })
		if got := stop(); got.code != exitDone || start > 0 && !strings.Contains(got.err, "the database refuses to change rows") {
			t.Errorf("run: %+v", got)
		}
	}
	stop := r.relay()
	row.mend()
	row.insert("last")
	until(t, "the rest", func() bool { return row.pending() == "0" && len(r.delivered()) == delivered+4 })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}

// TestRefusedDeadRow: a table that does not know dead rows refuses the mark of a dead letter. The rows of messages that were delivered beside it are
// settled, the dead letter is on record, and the relay goes on; the next start sends nothing again.
func TestRefusedDeadRow(t *testing.T) {
	t.Parallel()
	var calls, good atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		calls.Add(1)
		if body, err := io.ReadAll(req.Body); err != nil || strings.Contains(string(body), "bad") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		good.Add(1)
	}))
	t.Cleanup(server.Close)
	r := newRig(t, strings.Replace(endpointConfig, "reconcile: 0s", "reconcile: 1s, tables: [{name: jobs, shape: tailbox}]", 1)+"on_exhausted: skip\n")
	r.env["API_URL"] = server.URL
	r.sql("CREATE TABLE jobs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), type text, payload text, status text NOT NULL DEFAULT 'pending', finalized timestamptz, " +
		"delivered_at timestamptz, CHECK (status <> 'dead' OR finalized IS NOT NULL))")
	r.must("init")
	stop := r.relay()
	insert := func() {
		r.sql("INSERT INTO jobs (type, payload) SELECT 'T', CASE i WHEN 5 THEN 'bad' ELSE 'good' END FROM generate_series(1, 10) i")
	}
	settled := func(want string) func() bool {
		return func() bool {
			return r.ask("SELECT count(*) FILTER (WHERE status = 'delivered') || ' ' || count(*) FILTER (WHERE status = 'pending') || ' ' || "+
				"(SELECT count(*) FROM tailbox_parked WHERE state = 'dead' AND unfinished) FROM jobs") == want
		}
	}
	insert()
	until(t, "the rows beside the dead one", settled("9 1 1"))
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	stop = r.relay()
	insert()
	until(t, "what came later", settled("18 2 2"))
	if n := calls.Load(); n != 20 || good.Load() != 18 {
		t.Errorf("%d calls of which %d were good, want 20 and 18", n, good.Load())
	}
	r.sql("ALTER TABLE jobs DROP CONSTRAINT jobs_check")
	if got := stop(); got.code != exitDone || !strings.Contains(got.err, "the database refuses to change rows") {
		t.Errorf("run: %+v", got)
	}
	stop = r.relay()
	until(t, "the dead rows", func() bool { return r.ask("SELECT count(*)::text FROM jobs WHERE status = 'dead'") == "2" })
	if got := stop(); got.code != exitDone || calls.Load() != 20 {
		t.Errorf("run: %d calls, %+v", calls.Load(), got)
	}
}
