package setup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/postgres/upstream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Init tells everything that is missing at once, and creates nothing before it is there.
func TestInitLooksFirst(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("wal_level", "replica"), servers.WithSetting("max_replication_slots", "1"))
	foreign := pgtest.Shape("debezium", "theirs")
	foreign.Shape = "another"
	r := pgtest.NewBareRig(t, pg, pgtest.Shape("debezium", "outbox"), foreign, pgtest.Shape("debezium", "old"))
	r.Exec("CREATE TABLE old (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)")
	r.Exec("INSERT INTO old VALUES (gen_random_uuid(), 'a', 'b', 'c', '{}')")
	r.Exec("SELECT pg_create_physical_replication_slot('taken')")
	_, err := setup.Init(r.Ctx, r.Cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"nothing was created", "wal_level = 'logical'", "max_replication_slots is 1", `"theirs" does not exist`, "source.start"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("init lacks %q:\n%v", want, err)
		}
	}
	pgtest.Equal(t, "tables", r.Text("SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'"), "old")
	pgtest.Equal(t, "publications", r.Text("SELECT count(*)::text FROM pg_publication"), "0")
}

// What cannot be published as it is, init says with the fix that check has, before it creates anything, and also later on.
func TestInitFindsWhatIsNotPublished(t *testing.T) {
	t.Parallel()
	const row = "(id uuid PRIMARY KEY, type text, payload text)"
	for name, c := range map[string]struct{ ddl, pub, want string }{
		"unlogged":                {"CREATE UNLOGGED TABLE outbox " + row, "", `ALTER TABLE "public"."outbox" SET LOGGED`},
		"view":                    {"CREATE TABLE one " + row + "; CREATE VIEW outbox AS SELECT * FROM one", "", "name the table itself"},
		"partitions in a schema":  {"CREATE TABLE outbox " + row + " PARTITION BY HASH (id)", "FOR TABLES IN SCHEMA public", "publish_via_partition_root = true"},
		"partitions of the table": {"CREATE TABLE outbox " + row + " PARTITION BY HASH (id)", "FOR TABLE outbox", "publish_via_partition_root = true"},
		"partitions of all":       {"CREATE TABLE outbox " + row + " PARTITION BY HASH (id)", "FOR ALL TABLES", "publish_via_partition_root = true"},
		"no inserts":              {"CREATE TABLE outbox " + row, "FOR TABLE outbox WITH (publish = 'update')", "publish = 'insert'"},
		"generated":               {"CREATE TABLE outbox (id uuid PRIMARY KEY, type text, payload text GENERATED ALWAYS AS (type) STORED)", "", "column payload"},
		"missing column":          {"CREATE TABLE outbox (id uuid PRIMARY KEY, type text)", "", "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("tailbox", "outbox"))
			r.Cfg.Start, r.Cfg.Tables[0].OnDelivered = "now", outbox.Delete
			r.Exec(c.ddl)
			if c.pub != "" {
				r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " " + c.pub)
			}
			_, err := setup.Init(r.Ctx, r.Cfg)
			if text := pgtest.ErrorText(err); !strings.Contains(text, "nothing was created") || !strings.Contains(text, c.want) {
				t.Errorf("init: %s", text)
			}
			if problems := pgtest.Levels(r.Check(), check.Problem); !strings.Contains(problems, c.want) || strings.Contains(problems, "ADD TABLE") {
				t.Errorf("check: %s", problems)
			}
			pgtest.Equal(t, "tables", r.Text("SELECT count(*)::text FROM pg_tables WHERE tablename LIKE 'tailbox%'"), "0")
			if strings.Contains(c.want, "publish = ") || strings.Contains(c.want, "column") || c.want == "payload" {
				return // run tells
			}
			r.Exec(migrate.TablesIn("").Script())
			r.Exec("INSERT INTO tailbox_checkpoint (pipeline, resume, schema_version) VALUES ($1, '0/1', 1)", r.Cfg.Pipeline)
			if _, err = setup.Init(r.Ctx, r.Cfg); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("init later on: %v", err)
			}
		})
	}
}

// A table that a publication lacks is added to it, and init says that.
func TestInitAddsTable(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("debezium", "outbox"))
	r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication))
	done, err := setup.Init(r.Ctx, r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Equal(t, "done", strings.Join(done, ", "), `created tables tailbox_*, created table "public"."outbox", added table "public"."outbox" to publication `+r.Cfg.Publication)
}

// A slot that somebody else made is neither taken nor dropped, and its reader lives on, whatever it is called.
func TestInitLeavesOtherSlots(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	other := pgtest.NewBareRig(t, pg, pgtest.Shape("debezium", "outbox"))
	for name, place := range map[string]string{"here": "", "in another database": other.DB} {
		r := pgtest.NewBareRig(t, pg, pgtest.Shape("debezium", "outbox"))
		maker := r.Rig
		if place != "" {
			maker = other.Rig
		}
		maker.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.Cfg.Slot)
		if _, err := setup.Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), "slot "+r.Cfg.Slot) || !strings.Contains(err.Error(), "pg_drop_replication_slot") {
			t.Errorf("%s, not read: %v", name, err)
		}
		// A reader with the very name that ours has.
		cfg := r.Cfg
		cfg.URL = pg.SocketURL(maker.DB)
		conn, err := cfg.ConnectReplication(r.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.ClosePgConn(context.Background(), conn) })
		maker.Exec("CREATE PUBLICATION p")
		startStream(t, conn, "START_REPLICATION SLOT "+sqltext.Ident(r.Cfg.Slot)+" LOGICAL 0/0 (proto_version '1', publication_names 'p')")
		if _, err := setup.Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), "slot "+r.Cfg.Slot) {
			t.Errorf("%s, read: %v", name, err)
		}
		if place != "" {
			// Not even a relay that holds its lock, or an uninstall, touches what is in another database.
			r.Exec("CREATE TABLE outbox (LIKE pg_class)")
			r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " FOR TABLE outbox")
			if _, err := stream.New(r.Cfg).Establish(r.Ctx); err == nil || !strings.Contains(err.Error(), "belongs to database "+place) {
				t.Errorf("establish: %v", err)
			}
			ended, err := upstream.EndOldReader(r.Ctx, &r.Cfg, r.Conn.PgConn(), int(conn.PID()))
			if err != nil || ended {
				t.Errorf("end old reader: %v, %v", ended, err)
			}
			if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, true); err != nil {
				t.Errorf("uninstall: %v", err)
			}
			r.Exec("DROP TABLE outbox")
		}
		pgtest.Equal(t, name+": the reader lives", r.Text("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot),
			r.Text("SELECT pid::text FROM pg_stat_replication WHERE pid = $1", conn.PID()))
		pgtest.Equal(t, name+": tables", r.Text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"), "0")
		if err := session.ClosePgConn(r.Ctx, conn); err != nil {
			t.Fatal(err)
		}
	}
}

// startStream starts a replication stream that nobody reads.
func startStream(t *testing.T, conn *pgconn.PgConn, command string) {
	t.Helper()
	conn.Frontend().Send(&pgproto3.Query{String: command})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	msg, err := conn.ReceiveMessage(t.Context())
	if _, ok := msg.(*pgproto3.CopyBothResponse); !ok || err != nil {
		t.Fatalf("%s: %T, %v", command, msg, err)
	}
}

// Two pipelines never share a slot, even where their names make the same default; and one takes nothing of the other away.
func TestSlotOfAnotherPipeline(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("debezium", "outbox"))
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	r.Open()
	snap, err := stream.New(r.Cfg).Establish(r.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.St.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	first := r.Cfg
	r.Cfg.Pipeline += "-2"
	want := "that of pipeline " + first.Pipeline
	if _, err := setup.Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("init: %v", err)
	}
	if got := pgtest.Levels(r.Check(), check.Problem); !strings.Contains(got, want) {
		t.Errorf("check: %s", got)
	}
	st, err := pgstore.Open(r.Ctx, r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Load(r.Ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("load: %v", err)
	}
	if err := st.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := setup.Uninstall(r.Ctx, r.Cfg, true); err != nil {
		t.Fatal(err)
	}
	pgtest.Equal(t, "what is left", r.Text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1) || ' '
		|| (SELECT count(*) FROM pg_publication) || ' ' || (SELECT string_agg(pipeline, ',') FROM tailbox_checkpoint)`, first.Slot), "1 1 "+first.Pipeline)
	r.Cfg = first
	pgtest.Equal(t, "problems of the first", pgtest.Levels(r.Check(), check.Problem), "")
}
