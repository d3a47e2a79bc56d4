package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// Init tells everything that is missing at once, and creates nothing before it is there.
func TestInitLooksFirst(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("wal_level", "replica"), servers.WithSetting("max_replication_slots", "1"))
	foreign := shape("debezium", "theirs")
	foreign.Shape = "another"
	r := newBareRig(t, pg, shape("debezium", "outbox"), foreign, shape("debezium", "old"))
	r.exec("CREATE TABLE old (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)")
	r.exec("INSERT INTO old VALUES (gen_random_uuid(), 'a', 'b', 'c', '{}')")
	r.exec("SELECT pg_create_physical_replication_slot('taken')")
	_, err := r.cfg.Init(r.ctx)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"nothing was created", "wal_level = 'logical'", "max_replication_slots is 1", `"theirs" does not exist`, "source.start"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("init lacks %q:\n%v", want, err)
		}
	}
	equal(t, "tables", r.text("SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'"), "old")
	equal(t, "publications", r.text("SELECT count(*)::text FROM pg_publication"), "0")
}

// What cannot be published as it is, init says with the cure that check has, before it creates anything, and also later on.
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
			r := newBareRig(t, servers.Shared(t, "17"), shape("tailbox", "outbox"))
			r.cfg.Start, r.cfg.Tables[0].OnDelivered = "now", outbox.Delete
			r.exec(c.ddl)
			if c.pub != "" {
				r.exec("CREATE PUBLICATION " + quoteIdent(r.cfg.Publication) + " " + c.pub)
			}
			_, err := r.cfg.Init(r.ctx)
			if text := errorText(err); !strings.Contains(text, "nothing was created") || !strings.Contains(text, c.want) {
				t.Errorf("init: %s", text)
			}
			if problems := levels(r.check(), Problem); !strings.Contains(problems, c.want) || strings.Contains(problems, "ADD TABLE") {
				t.Errorf("check: %s", problems)
			}
			equal(t, "tables", r.text("SELECT count(*)::text FROM pg_tables WHERE tablename LIKE 'tailbox%'"), "0")
			if strings.Contains(c.want, "publish = ") || strings.Contains(c.want, "column") || c.want == "payload" {
				return // run tells
			}
			r.exec(tableNames("").ownTables())
			r.exec("INSERT INTO tailbox_checkpoint (pipeline, resume, schema_version) VALUES ($1, '0/1', 1)", r.cfg.Pipeline)
			if _, err = r.cfg.Init(r.ctx); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("init later on: %v", err)
			}
		})
	}
}

// A table that a publication lacks is added to it, and init says that.
func TestInitAddsTable(t *testing.T) {
	t.Parallel()
	r := newBareRig(t, servers.Shared(t, "17"), shape("debezium", "outbox"))
	r.exec("CREATE PUBLICATION " + quoteIdent(r.cfg.Publication))
	done, err := r.cfg.Init(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "done", strings.Join(done, ", "), `created tables tailbox_*, created table "public"."outbox", added table "public"."outbox" to publication `+r.cfg.Publication)
}

// A slot that somebody else made is neither taken nor dropped, and its reader lives on, whatever it is called.
func TestInitLeavesOtherSlots(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	other := newBareRig(t, pg, shape("debezium", "outbox"))
	for name, place := range map[string]string{"here": "", "in another database": other.db} {
		r := newBareRig(t, pg, shape("debezium", "outbox"))
		maker := r.rig
		if place != "" {
			maker = other.rig
		}
		maker.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.cfg.Slot)
		if _, err := r.cfg.Init(r.ctx); err == nil || !strings.Contains(err.Error(), "slot "+r.cfg.Slot) || !strings.Contains(err.Error(), "pg_drop_replication_slot") {
			t.Errorf("%s, not read: %v", name, err)
		}
		// A reader with the very name that ours has.
		cfg := r.cfg
		cfg.URL = pg.SocketURL(maker.db)
		conn, err := cfg.connectReplication(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = closePgConn(context.Background(), conn) })
		maker.exec("CREATE PUBLICATION p")
		startStream(t, conn, "START_REPLICATION SLOT "+quoteIdent(r.cfg.Slot)+" LOGICAL 0/0 (proto_version '1', publication_names 'p')")
		if _, err := r.cfg.Init(r.ctx); err == nil || !strings.Contains(err.Error(), "slot "+r.cfg.Slot) {
			t.Errorf("%s, read: %v", name, err)
		}
		if place != "" {
			// Not even a relay that holds its lock, or an uninstall, touches what is in another database.
			r.exec("CREATE TABLE outbox (LIKE pg_class)")
			r.exec("CREATE PUBLICATION " + quoteIdent(r.cfg.Publication) + " FOR TABLE outbox")
			if _, err := New(r.cfg).Establish(r.ctx); err == nil || !strings.Contains(err.Error(), "belongs to database "+place) {
				t.Errorf("establish: %v", err)
			}
			ended, err := r.cfg.endOldReader(r.ctx, r.conn.PgConn(), int(conn.PID()))
			if err != nil || ended {
				t.Errorf("end old reader: %v, %v", ended, err)
			}
			if _, _, err := r.cfg.Uninstall(r.ctx, true); err != nil {
				t.Errorf("uninstall: %v", err)
			}
			r.exec("DROP TABLE outbox")
		}
		equal(t, name+": the reader lives", r.text("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot),
			r.text("SELECT pid::text FROM pg_stat_replication WHERE pid = $1", conn.PID()))
		equal(t, name+": tables", r.text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"), "0")
		if err := closePgConn(r.ctx, conn); err != nil {
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
	r := newBareRig(t, servers.Shared(t, "17"), shape("debezium", "outbox"))
	if _, err := r.cfg.Init(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.open()
	snap, err := New(r.cfg).Establish(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	first := r.cfg
	r.cfg.Pipeline += "-2"
	want := "that of pipeline " + first.Pipeline
	if _, err := r.cfg.Init(r.ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("init: %v", err)
	}
	if got := levels(r.check(), Problem); !strings.Contains(got, want) {
		t.Errorf("check: %s", got)
	}
	st, err := openStore(r.ctx, r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Load(r.ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("load: %v", err)
	}
	if err := st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.cfg.Uninstall(r.ctx, true); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is left", r.text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1) || ' '
		|| (SELECT count(*) FROM pg_publication) || ' ' || (SELECT string_agg(pipeline, ',') FROM tailbox_checkpoint)`, first.Slot), "1 1 "+first.Pipeline)
	r.cfg = first
	equal(t, "problems of the first", levels(r.check(), Problem), "")
}
