package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// Pipelines of one database have a lock each.
func TestPipelinesDoNotMeet(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	other := r.cfg
	other.Pipeline = "another"
	st, err := other.Open(r.ctx)
	if err != nil {
		t.Fatalf("store of another pipeline: %v", err)
	}
	if err := st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	_, err := r.cfg.Open(context.Background())
	if !errors.Is(err, checkpoint.ErrNoTables) || !errors.Is(err, source.ErrStop) {
		t.Errorf("open without tables: %v, want ErrNoTables and ErrStop", err)
	}
	r.exec(tableNames("").ownTables())
	r.cfg.Tables[0].Name = "nowhere"
	if _, err := r.cfg.Open(context.Background()); !errors.Is(err, source.ErrStop) {
		t.Errorf("open without outbox table: %v, want ErrStop", err)
	}
}

// A database default of synchronous_commit=off must not reach the store: it would confirm what is not durable.
func TestStoreSession(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			r.exec("ALTER DATABASE " + r.db + " SET synchronous_commit = off")
			r.exec("ALTER DATABASE " + r.db + " SET default_transaction_isolation = 'serializable'")
			limited := r.text("SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'") == "1" // 17 and later
			if limited {
				r.exec("ALTER DATABASE " + r.db + " SET transaction_timeout = '1s'")
			}
			r.reopen()
			for name, want := range map[string]string{"synchronous_commit": "on", "idle_session_timeout": "10s",
				"idle_in_transaction_session_timeout": "10s", "statement_timeout": "0", "transaction_isolation": "read committed",
				"row_security": "off", "application_name": appName(r.cfg.Pipeline)} {
				var got string
				if err := r.st.conn.QueryRow(r.ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
			var got string
			if err := r.st.conn.QueryRow(r.ctx, "SELECT current_setting('transaction_timeout', true)").Scan(&got); limited && (err != nil || got != "0") {
				t.Errorf("transaction_timeout = %q, %v, want none", got, err)
			}
		})
	}
}

// What the server will refuse whenever it is asked stops the relay, with a cure: to begin anew would deliver the same messages again each
// time.
func TestRefusedForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ddl, cure string }{
		"without a replica identity": {`ALTER TABLE outbox REPLICA IDENTITY NOTHING; CREATE PUBLICATION everything FOR ALL TABLES`, "REPLICA IDENTITY FULL"},
		"trigger with a state of its own": {`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no'' USING ERRCODE = ''ZX001''; END';
			CREATE TRIGGER refuse BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`, "triggers"},
		"trigger that changes the row": {`CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN UPDATE outbox SET type = ''touched'' WHERE id = OLD.id; RETURN OLD; END';
			CREATE TRIGGER touch BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION touch()`, "triggers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
			r.row(1)
			r.exec(c.ddl)
			_, err := r.st.Settle(r.ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "public.outbox", ID: eventID(1)}}})
			if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.cure) {
				t.Errorf("settle: %v; want it to stop, with %q", err, c.cure)
			}
		})
	}
}
