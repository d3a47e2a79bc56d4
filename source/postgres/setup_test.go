package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// newBareRig is a database without anything, and a configuration for it.
func newBareRig(t *testing.T, pg *servers.PG, tables ...outbox.Table) *storeRig {
	t.Helper()
	r := &storeRig{rig: &rig{t: t, pg: pg, db: pg.NewDatabase(t)}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r.ctx, r.conn = ctx, r.connect()
	name := r.db[:min(len(r.db), 50)]
	r.cfg = Config{Pipeline: name, URL: pg.SocketURL(r.db), Slot: name, Publication: "pub " + name, Tables: tables}
	t.Cleanup(r.dropSlot)
	return r
}

func levels(findings []Finding, want Level) string {
	var lines []string
	for _, f := range findings {
		if f.Level == want {
			lines = append(lines, f.What+" => "+f.Cure)
		}
	}
	return strings.Join(lines, "\n")
}

func (r *storeRig) check() []Finding {
	r.t.Helper()
	findings, err := r.cfg.Check(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return findings
}

func TestInitAndUninstall(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			debezium, own := shape("debezium", "outbox"), shape("tailbox", "it's \"second\"")
			own.Schema = ""
			own.Fields = []string{"extra"}
			own.Columns.Group = []string{"customer", "region"}
			r := newBareRig(t, servers.Shared(t, version), debezium, own)
			r.cfg.Schema = "relay"
			problems := levels(r.check(), Problem)
			for _, want := range []string{"tables tailbox_*", "table \"public\".\"outbox\" does not exist", "publication"} {
				if !strings.Contains(problems, want) {
					t.Errorf("problems before init lack %q:\n%s", want, problems)
				}
			}
			created, err := r.cfg.Init(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "created", len(created), 5)
			created, err = r.cfg.Init(r.ctx)
			if err != nil || len(created) != 0 {
				t.Errorf("second init created %v, %v", created, err)
			}
			sql, err := r.cfg.SetupScript()
			if err != nil {
				t.Fatal(err)
			}
			r.exec(sql) // what --print shows can be run on top
			equal(t, "problems after init", levels(r.check(), Problem), "")
			r.exec(`INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('a', 'b', 'T', '{}')`)
			equal(t, "the first start has to be told", strings.Contains(levels(r.check(), Problem), "source.start"), true)
			r.cfg.Start = "pending"
			equal(t, "problems", levels(r.check(), Problem), "")
			r.cfg.Start = "now"
			equal(t, "what is left alone is pending all the same", strings.Contains(levels(r.check(), Warning), "source.reconcile"), true)

			r.open()
			s, err := New(r.cfg).Establish(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.cfg.Uninstall(r.ctx, true); !errors.Is(err, checkpoint.ErrLocked) {
				t.Errorf("uninstall under a running relay: %v", err)
			}
			r.park(dead("kafka", msg(1, "g"), true))
			if err := r.st.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.cfg.Uninstall(r.ctx, false); err == nil || !strings.Contains(err.Error(), "--force") {
				t.Errorf("uninstall with a parked delivery: %v", err)
			}
			r.exec(`INSERT INTO relay.tailbox_checkpoint (pipeline, schema_version) VALUES ('another', 1)`)
			dropped, _, err := r.cfg.Uninstall(r.ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "dropped", strings.Contains(strings.Join(dropped, ","), "other pipelines use"), true)
			equal(t, "other pipelines keep theirs", r.text("SELECT string_agg(pipeline, ',') FROM relay.tailbox_checkpoint"), "another")
			r.exec("DELETE FROM relay.tailbox_checkpoint")
			if _, _, err := r.cfg.Uninstall(r.ctx, false); err != nil {
				t.Fatal(err)
			}
			equal(t, "tables left", r.text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'relay'"), "0")
			equal(t, "slots and publications left", r.text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1)
				+ (SELECT count(*) FROM pg_publication)::int || ''`, r.cfg.Slot), "0")
			if _, _, err := r.cfg.Uninstall(r.ctx, false); err != nil {
				t.Errorf("uninstall of nothing: %v", err)
			}
		})
	}
}

// All problems are told at once, each with its cure.
func TestCheckFindsEverything(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("wal_level", "replica"), servers.WithSetting("max_replication_slots", "1"))
	broken := outbox.Table{Schema: "public", Name: "broken", Shape: "another", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(),
		Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload", Attempts: "attempts"}}
	parted := shape("debezium", "parted")
	missing := shape("debezium", "missing")
	unlogged := shape("debezium", "fast")
	r := newBareRig(t, pg, broken, parted, missing, unlogged, shape("debezium", "listed"))
	r.exec(`CREATE TABLE broken (id uuid, type text, attempts text); CREATE TABLE listed (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb); CREATE UNLOGGED TABLE fast (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb);
		CREATE TABLE parted (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb) PARTITION BY HASH (id);
		CREATE PUBLICATION "pub ` + r.cfg.Publication[4:] + `" FOR TABLE parted, listed (id, type), broken WHERE (attempts = 'x') WITH (publish = 'update')`)
	r.exec("SELECT pg_create_physical_replication_slot('taken')")
	r.exec("CREATE ROLE weak LOGIN")
	r.exec("GRANT CREATE ON DATABASE " + r.db + " TO weak")
	r.exec("ALTER TABLE parted ENABLE ROW LEVEL SECURITY")
	r.cfg.URL = strings.Replace(r.cfg.URL, "postgres@", "weak@", 1)
	findings := r.check()
	problems, warnings := levels(findings, Problem), levels(findings, Warning)
	for _, want := range []string{"wal_level = 'logical'", "max_replication_slots is 1", "ALTER ROLE \"weak\" WITH REPLICATION", "tables tailbox_*",
		"GRANT SELECT ON \"public\".\"broken\" TO \"weak\"", "GRANT UPDATE ON \"public\".\"broken\"", "GRANT DELETE ON \"public\".\"parted\"",
		"column payload", "is to be marked, but has no column", "column attempts of table public.broken is not an integer", "\"missing\" does not exist",
		"SET LOGGED", "SET (publish = 'insert')", "publish_via_partition_root = true", "does not hold table public.fast", "leaves out columns aggregatetype, aggregateid, payload", "row-level security"} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems lack %q", want)
		}
	}
	for _, want := range []string{"publishes updates", "no index that begins with id", "where (attempts = 'x'"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings lack %q", want)
		}
	}
	if t.Failed() {
		t.Logf("problems:\n%s\nwarnings:\n%s", problems, warnings)
	}
	r.cfg.URL = "postgres://nobody@127.0.0.1:1/none"
	equal(t, "no server", len(levels(r.check(), Problem)) > 0, true)
}

func TestCheckNamesOpenTransactions(t *testing.T) {
	t.Parallel()
	r := newBareRig(t, servers.Shared(t, "17"), shape("debezium", "outbox"))
	if _, err := r.cfg.Init(r.ctx); err != nil {
		t.Fatal(err)
	}
	exec(t, r.conn, "BEGIN")
	exec(t, r.conn, "CREATE TABLE x ()")
	exec(t, r.conn, "PREPARE TRANSACTION '"+r.db+"'")
	if w := levels(r.check(), Warning); !strings.Contains(w, "prepared transaction '"+r.db+"'") {
		t.Errorf("warnings: %s", w)
	}
	exec(t, r.conn, "ROLLBACK PREPARED '"+r.db+"'")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			s, err := New(r.cfg).Establish(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(r.ctx) }()
			if err := r.st.Save(r.ctx, &checkpoint.Checkpoint{SourceID: "1/1", Resume: s.Resume(), Log: 1}); err != nil {
				t.Fatal(err)
			}
			r.park(head("kafka", msg(1, "g"), 0), follower("kafka", msg(2, "g")), dead("kafka", msg(3, "h"), true), dead("audit", msg(4, ""), false),
				head("audit", msg(5, "i"), time.Hour))
			r.ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"i"}})
			r.ask(checkpoint.VerbPause, checkpoint.Selection{Sinks: []string{"mail"}})
			got, err := Status(r.ctx, r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Sinks {
				if s := &got.Sinks[i]; s.Sink == "kafka" && (s.DueSeconds <= 0 || s.HeldSeconds <= 0 || s.UndeliveredSeconds <= 3600) {
					t.Errorf("ages: %+v", s)
				} else {
					s.DueSeconds, s.HeldSeconds, s.UndeliveredSeconds = 0, 0, 0
				}
			}
			equal(t, "sinks", got.Sinks, []store.SinkReport{{Sink: "audit", Retrying: 1, Dead: 1, Lanes: 1, HeldLanes: 1, Tables: map[string]int{"public.outbox": 2}},
				{Sink: "kafka", Retrying: 1, Waiting: 1, Dead: 1, Lanes: 2, HeldLanes: 1, Tables: map[string]int{"public.outbox": 3}}, {Sink: "mail", Paused: true}})
			if got.Holder == nil || got.Holder.PID != int(r.st.conn.PgConn().PID()) {
				t.Errorf("holder: %+v", got.Holder)
			}
			if got.Slot == nil || got.Slot.Row["plugin"] != "pgoutput" || got.Slot.RetainedBytes <= 0 {
				t.Errorf("slot: %+v", got.Slot)
			}
			if got.Checkpoint == nil || got.Checkpoint.Resume != string(s.Resume()) || got.SourceID == "" {
				t.Errorf("checkpoint: %+v", got.Checkpoint)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOperatorsWithoutRelay(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	big := dead("kafka", msg(3, "h"), false)
	big.Message.Payload = []byte(strings.Repeat("x", 1000))
	r.park(dead("kafka", msg(1, "g"), true), follower("kafka", msg(2, "g")), big, dead("audit", msg(1, "g"), true))
	list, more, err := r.cfg.Operator().List(r.ctx, checkpoint.Selection{All: true}, 2, true)
	if err != nil || !more || len(list) != 2 || list[0].Sink != "audit" || list[0].ParkedAt.IsZero() {
		t.Errorf("list: %+v, %v, %v", list, more, err)
	}
	list, more, err = r.cfg.Operator().List(r.ctx, checkpoint.Selection{IDs: []string{eventID(3)}}, 0, true)
	if err != nil || more || len(list) != 1 || len(list[0].Message.Payload) != 1000 {
		t.Errorf("show: %+v, %v, %v", list, more, err)
	}
	ask := func(v checkpoint.Verb, sel checkpoint.Selection) int64 {
		t.Helper()
		id, err := r.cfg.Operator().Ask(r.ctx, &checkpoint.Request{Verb: v, Selection: sel, Reason: "why"})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if _, err := r.cfg.Operator().Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbReplay}); err == nil {
		t.Error("an empty selection was not refused")
	}
	hold := ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"empty", "g"}, Sink: "kafka"})
	if err := r.cfg.Operator().Execute(r.ctx, hold); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("execute under a running relay: %v", err)
	}
	if err := r.st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	ask(checkpoint.VerbAcceptGap, checkpoint.Selection{From: "0/1"})
	result, err := r.cfg.Operator().Wait(r.ctx, ask(checkpoint.VerbReplay, checkpoint.Selection{All: true}))
	if err != nil || result == nil || result.Changed != 2 || result.Refused != 1 {
		t.Errorf("replay: %+v, %v", result, err)
	}
	if result, err := r.cfg.Operator().Wait(r.ctx, ask(checkpoint.VerbAcceptGap, checkpoint.Selection{From: "0/1"})); err != nil || result != nil {
		t.Errorf("accept-gap without a relay: %+v, %v", result, err)
	}
	lanes, err := r.cfg.Operator().Lanes(r.ctx, checkpoint.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lanes {
		name := l.Sink + "/" + l.Group
		if l.First != nil {
			name += " " + string(l.First.State) + " " + short(l.First.Message.ID)
		}
		if l.Held {
			name += " held"
		}
		got = append(got, name)
	}
	equal(t, "lanes", strings.Join(got, ", "), "kafka/empty held, audit/g waiting 1, kafka/g waiting 1 held")
	lanes, err = r.cfg.Operator().Lanes(r.ctx, checkpoint.Selection{Sink: "audit", Groups: []string{"g", "empty"}}, 10)
	if err != nil || len(lanes) != 1 {
		t.Errorf("lanes: %+v, %v", lanes, err)
	}
	loaded := r.open()
	equal(t, "left for a start", r.text("SELECT count(*)::text FROM tailbox_request WHERE done_at IS NULL"), "2")
	equal(t, "executing counts no start", loaded.UncleanStarts, 0)
}

func TestSnapshotVisible(t *testing.T) {
	t.Parallel()
	s, err := parseSnapshot("4294967290:4294967310:4294967291,4294967300")
	if err != nil {
		t.Fatal(err)
	}
	for txn, want := range map[uint64]bool{4294967289: true, 4294967290: true, 4294967291: false, 4294967295: true, 3: true, 4: false, 13: true, 14: false, 100: false} {
		if got := s.visible(txn); got != want {
			t.Errorf("visible(%d) = %v, want %v", txn, got, want)
		}
	}
	young := snapshot{xmin: 800, xmax: 810}
	if !young.visible(799) || young.visible(811) {
		t.Error("a young cluster: 799 is visible, 811 is not")
	}
	for _, bad := range []string{"", "1:2", "x:2:", "1:x:", "1:2:x"} {
		if _, err := parseSnapshot(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
