package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// Pipelines of one database have a lock each.
func TestPipelinesDoNotMeet(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	other := r.Cfg
	other.Pipeline = "another"
	st, err := postgres.Config(other).Open(r.Ctx)
	if err != nil {
		t.Fatalf("store of another pipeline: %v", err)
	}
	if err := st.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutTables(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	_, err := postgres.Config(r.Cfg).Open(context.Background())
	if !errors.Is(err, checkpoint.ErrNoTables) || !errors.Is(err, source.ErrStop) {
		t.Errorf("open without tables: %v, want ErrNoTables and ErrStop", err)
	}
	r.Exec(migrate.TablesIn("").Script())
	r.Cfg.Tables[0].Name = "nowhere"
	if _, err := postgres.Config(r.Cfg).Open(context.Background()); !errors.Is(err, source.ErrStop) {
		t.Errorf("open without outbox table: %v, want ErrStop", err)
	}
}

// A database default of synchronous_commit=off must not reach the store: it would confirm what is not durable.
func TestStoreSession(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, version), nil, pgtest.Shape("debezium", "outbox"))
			r.Exec("ALTER DATABASE " + r.DB + " SET synchronous_commit = off")
			r.Exec("ALTER DATABASE " + r.DB + " SET default_transaction_isolation = 'serializable'")
			limited := r.Text("SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'") == "1" // 17 and later
			if limited {
				r.Exec("ALTER DATABASE " + r.DB + " SET transaction_timeout = '1s'")
			}
			r.Reopen()
			for name, want := range map[string]string{"synchronous_commit": "on", "idle_session_timeout": "10s",
				"idle_in_transaction_session_timeout": "10s", "statement_timeout": "0", "transaction_isolation": "read committed",
				"row_security": "off", "application_name": session.AppName(r.Cfg.Pipeline)} {
				var got string
				if err := r.St.Conn.QueryRow(r.Ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
			var got string
			if err := r.St.Conn.QueryRow(r.Ctx, "SELECT current_setting('transaction_timeout', true)").Scan(&got); limited && (err != nil || got != "0") {
				t.Errorf("transaction_timeout = %q, %v, want none", got, err)
			}
		})
	}
}

// What the server will refuse whenever it is asked stops the relay, with a fix: to begin anew would deliver the same messages again each
// time.
func TestRefusedForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ddl, fix string }{
		"without a replica identity": {`ALTER TABLE outbox REPLICA IDENTITY NOTHING; CREATE PUBLICATION everything FOR ALL TABLES`, "REPLICA IDENTITY FULL"},
		"trigger with a state of its own": {`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no'' USING ERRCODE = ''ZX001''; END';
			CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`, "triggers"},
		"trigger that changes the row": {`CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN UPDATE outbox SET type = ''touched'' WHERE id = OLD.id; RETURN OLD; END';
			CREATE TRIGGER touch BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION touch()`, "triggers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
			r.Row(1)
			r.Exec(c.ddl)
			_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "public.outbox", ID: sourcetest.EventID(1)}}})
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.fix) {
				t.Errorf("settle: %v; want it to stop, with %q", err, c.fix)
			}
		})
	}
}
