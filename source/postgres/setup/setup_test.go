package setup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

func TestInitAndUninstall(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			debezium, own := pgtest.Shape("debezium", "outbox"), pgtest.Shape("tailbox", "it's \"second\"")
			own.Schema = ""
			own.Fields = []string{"extra"}
			own.Columns.Group = []string{"customer", "region"}
			r := pgtest.NewBareRig(t, servers.Shared(t, version), debezium, own)
			r.Cfg.Schema = "relay"
			problems := pgtest.Levels(r.Check(), check.Problem)
			for _, want := range []string{"tables tailbox_*", "table \"public\".\"outbox\" does not exist", "publication"} {
				if !strings.Contains(problems, want) {
					t.Errorf("problems before init lack %q:\n%s", want, problems)
				}
			}
			created, err := setup.Init(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "created", len(created), 5)
			created, err = setup.Init(r.Ctx, r.Cfg)
			if err != nil || len(created) != 0 {
				t.Errorf("second init created %v, %v", created, err)
			}
			sql, err := setup.Script(r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			r.Exec(sql) // what --print shows can be run on top
			pgtest.Equal(t, "problems after init", pgtest.Levels(r.Check(), check.Problem), "")
			r.Exec(`INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('a', 'b', 'T', '{}')`)
			pgtest.Equal(t, "the first start has to be told", strings.Contains(pgtest.Levels(r.Check(), check.Problem), "source.start"), true)
			r.Cfg.Start = "pending"
			pgtest.Equal(t, "problems", pgtest.Levels(r.Check(), check.Problem), "")
			r.Cfg.Start = "now"
			pgtest.Equal(t, "what is left alone is pending all the same", strings.Contains(pgtest.Levels(r.Check(), check.Warning), "source.reconcile"), true)

			r.Open()
			s, err := stream.New(r.Cfg).Establish(r.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(r.Ctx); err != nil {
				t.Fatal(err)
			}
			if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, true); !errors.Is(err, checkpoint.ErrLocked) {
				t.Errorf("uninstall under a running relay: %v", err)
			}
			r.Park(sourcetest.Dead("kafka", pgtest.Msg(1, "g"), true))
			if err := r.St.Close(r.Ctx); err != nil {
				t.Fatal(err)
			}
			if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, false); err == nil || !strings.Contains(err.Error(), "--force") {
				t.Errorf("uninstall with a parked delivery: %v", err)
			}
			r.Exec(`INSERT INTO relay.tailbox_checkpoint (pipeline, schema_version) VALUES ('another', 1)`)
			dropped, _, err := setup.Uninstall(r.Ctx, r.Cfg, true)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "dropped", strings.Contains(strings.Join(dropped, ","), "other pipelines use"), true)
			pgtest.Equal(t, "other pipelines keep theirs", r.Text("SELECT string_agg(pipeline, ',') FROM relay.tailbox_checkpoint"), "another")
			r.Exec("DELETE FROM relay.tailbox_checkpoint")
			if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, false); err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "tables left", r.Text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'relay'"), "0")
			pgtest.Equal(t, "slots and publications left", r.Text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1)
				+ (SELECT count(*) FROM pg_publication)::int || ''`, r.Cfg.Slot), "0")
			if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, false); err != nil {
				t.Errorf("uninstall of nothing: %v", err)
			}
		})
	}
}

// A publication of all tables takes no table. The printed script leaves it as it is.
func TestScriptOnPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	r := pgtest.NewOwnerRig(t)
	r.Exec("DROP PUBLICATION " + sqltext.Ident(r.Cfg.Publication))
	r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " FOR ALL TABLES WITH (publish_via_partition_root = true)")
	sql, err := setup.Script(r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec(sql)
	pgtest.Equal(t, "problems", pgtest.Levels(r.Check(), check.Problem), "")
}

// All problems are told at once, each with its fix.
func TestCheckFindsEverything(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("wal_level", "replica"), servers.WithSetting("max_replication_slots", "1"))
	broken := outbox.Table{Schema: "public", Name: "broken", Shape: "another", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(),
		Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload", Attempts: "attempts"}}
	parted := pgtest.Shape("debezium", "parted")
	missing := pgtest.Shape("debezium", "missing")
	unlogged := pgtest.Shape("debezium", "fast")
	r := pgtest.NewBareRig(t, pg, broken, parted, missing, unlogged, pgtest.Shape("debezium", "listed"))
	r.Exec(`CREATE TABLE broken (id uuid, type text, attempts text); CREATE TABLE listed (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb); CREATE UNLOGGED TABLE fast (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb);
		CREATE TABLE parted (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb) PARTITION BY HASH (id);
		CREATE PUBLICATION "pub ` + r.Cfg.Publication[4:] + `" FOR TABLE parted, listed (id, type), broken WHERE (attempts = 'x') WITH (publish = 'update')`)
	r.Exec("SELECT pg_create_physical_replication_slot('taken')")
	r.Exec("CREATE ROLE weak LOGIN")
	r.Exec("GRANT CREATE ON DATABASE " + r.DB + " TO weak")
	r.Exec("ALTER TABLE parted ENABLE ROW LEVEL SECURITY")
	r.Cfg.URL = strings.Replace(r.Cfg.URL, "postgres@", "weak@", 1)
	findings := r.Check()
	problems, warnings := pgtest.Levels(findings, check.Problem), pgtest.Levels(findings, check.Warning)
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
	r.Cfg.URL = "postgres://nobody@127.0.0.1:1/none"
	pgtest.Equal(t, "no server", len(pgtest.Levels(r.Check(), check.Problem)) > 0, true)
}

func TestCheckNamesOpenTransactions(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("debezium", "outbox"))
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, r.Conn, "BEGIN")
	pgtest.Exec(t, r.Conn, "CREATE TABLE x ()")
	pgtest.Exec(t, r.Conn, "PREPARE TRANSACTION '"+r.DB+"'")
	if w := pgtest.Levels(r.Check(), check.Warning); !strings.Contains(w, "prepared transaction '"+r.DB+"'") {
		t.Errorf("warnings: %s", w)
	}
	pgtest.Exec(t, r.Conn, "ROLLBACK PREPARED '"+r.DB+"'")
}

func TestOperatorsWithoutRelay(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	big := sourcetest.Dead("kafka", pgtest.Msg(3, "h"), false)
	big.Message.Payload = []byte(strings.Repeat("x", 1000))
	r.Park(sourcetest.Dead("kafka", pgtest.Msg(1, "g"), true), sourcetest.Follower("kafka", pgtest.Msg(2, "g")), big, sourcetest.Dead("audit", pgtest.Msg(1, "g"), true))
	list, more, err := postgres.Config(r.Cfg).Operator().List(r.Ctx, checkpoint.Selection{All: true}, 2, true)
	if err != nil || !more || len(list) != 2 || list[0].Sink != "audit" || list[0].ParkedAt.IsZero() {
		t.Errorf("list: %+v, %v, %v", list, more, err)
	}
	list, more, err = postgres.Config(r.Cfg).Operator().List(r.Ctx, checkpoint.Selection{IDs: []string{sourcetest.EventID(3)}}, 0, true)
	if err != nil || more || len(list) != 1 || len(list[0].Message.Payload) != 1000 {
		t.Errorf("show: %+v, %v, %v", list, more, err)
	}
	ask := func(v checkpoint.Verb, sel checkpoint.Selection) int64 {
		t.Helper()
		id, err := postgres.Config(r.Cfg).Operator().Ask(r.Ctx, &checkpoint.Request{Verb: v, Selection: sel, Reason: "why"})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if _, err := postgres.Config(r.Cfg).Operator().Ask(r.Ctx, &checkpoint.Request{Verb: checkpoint.VerbReplay}); err == nil {
		t.Error("an empty selection was not refused")
	}
	hold := ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"empty", "g"}, Sink: "kafka"})
	if err := postgres.Config(r.Cfg).Operator().Execute(r.Ctx, hold); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("execute under a running relay: %v", err)
	}
	if err := r.St.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	ask(checkpoint.VerbAcceptGap, checkpoint.Selection{From: "0/1"})
	result, err := postgres.Config(r.Cfg).Operator().Wait(r.Ctx, ask(checkpoint.VerbReplay, checkpoint.Selection{All: true}))
	if err != nil || result == nil || result.Changed != 2 || result.Refused != 1 {
		t.Errorf("replay: %+v, %v", result, err)
	}
	if result, err := postgres.Config(r.Cfg).Operator().Wait(r.Ctx, ask(checkpoint.VerbAcceptGap, checkpoint.Selection{From: "0/1"})); err != nil || result != nil {
		t.Errorf("accept-gap without a relay: %+v, %v", result, err)
	}
	lanes, next, err := postgres.Config(r.Cfg).Operator().Lanes(r.Ctx, checkpoint.Selection{}, checkpoint.Lane{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if next != nil {
		t.Errorf("lanes without a limit go on behind %v", next)
	}
	var got []string
	for _, l := range lanes {
		name := l.Sink + "/" + l.Group
		if l.First != nil {
			name += " " + string(l.First.State) + " " + sourcetest.Short(l.First.Message.ID)
		}
		if l.Held {
			name += " held"
		}
		got = append(got, name)
	}
	pgtest.Equal(t, "lanes", strings.Join(got, ", "), "kafka/empty held, audit/g waiting 1, kafka/g waiting 1 held")
	lanes, next, err = postgres.Config(r.Cfg).Operator().Lanes(r.Ctx, checkpoint.Selection{Sink: "audit", Groups: []string{"g", "empty"}}, checkpoint.Lane{}, 10)
	if err != nil || len(lanes) != 1 || next != nil {
		t.Errorf("lanes: %+v, %v, %v", lanes, next, err)
	}
	loaded := r.Open()
	pgtest.Equal(t, "left for a start", r.Text("SELECT count(*)::text FROM tailbox_request WHERE done_at IS NULL"), "2")
	pgtest.Equal(t, "executing counts no start", loaded.UncleanStarts, 0)
}
