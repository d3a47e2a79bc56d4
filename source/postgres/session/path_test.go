package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/status"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// What somebody creates in a schema of the search path is never run as the relay's role, whatever the relay does: nor as the owner's, who runs
// what init prints.
func TestOthersCodeIsNotRun(t *testing.T) {
	t.Parallel()
	table := pgtest.Shape("memo", "email_outbox")
	table.Schema, table.Retention, table.Tenants = "", 1, []string{"a", "b"}
	table.Columns.Tenant = "tenant"
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
	r.Traps()
	ctx := r.Ctx
	r.Cfg.Feedback = nil
	script, err := setup.Script(r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec(script)
	if _, err := setup.Init(ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	r.Own()
	cfg := r.As(r.Role("relay", ""))
	role := "relay_" + r.DB
	r.Exec(setup.RoleSQL(r.Cfg, role[:min(len(role), 60)]))
	if _, err := setup.Check(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	c := &r.Cfg.Tables[0].Columns
	add := func(n int, status string) {
		r.Exec(fmt.Sprintf(`INSERT INTO email_outbox (id, %s, %s, payload, recipient_email, notification_type, status, tenant, %s)
			VALUES ($1::uuid, $1::uuid, 't', '{}', 'r', 'n', $2, 'a', CASE WHEN $3 THEN now() - interval '1 day' END)`,
			c.CorrelationID, c.Type, c.DeliveredAt), sourcetest.EventID(n), status, status == r.Cfg.Tables[0].Words.Delivered)
	}
	add(1, r.Cfg.Tables[0].Words.Pending)
	add(2, r.Cfg.Tables[0].Words.Delivered)
	st, err := pgstore.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close(ctx) }()
	if _, err := st.Load(ctx); err != nil {
		t.Fatal(err)
	}
	snap, err := stream.New(cfg).Establish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snap.Close(ctx) }()
	if _, err := snap.Judge(ctx, source.Known{First: true}); err != nil {
		t.Fatal(err)
	}
	var swept int
	if err := snap.Pending(ctx, 1, func(_ context.Context, b *source.Batch) error { swept += len(b.Messages); return nil }); err != nil || swept != 1 {
		t.Fatalf("swept %d: %v", swept, err)
	}
	pending, err := st.Pending(ctx, "", 10)
	if err != nil || len(pending.Rows) != 1 {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	ms, _, err := st.Fetch(ctx, pending.Rows, outbox.Position{Log: 1, Commit: 1}, 1<<20)
	if err != nil || len(ms) != 1 {
		t.Fatalf("fetched %d: %v", len(ms), err)
	}
	if _, err := st.Settle(ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Head("kafka", ms[0], 0)}, Rows: []checkpoint.Row{sourcetest.RowOf(ms[0], true)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Settle(ctx, &checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", ms[0])}}); err != nil {
		t.Fatal(err)
	}
	if removed, _, err := st.Clean(ctx, ""); err != nil || removed == 0 {
		t.Fatalf("removed %d: %v", removed, err)
	}
	if _, _, err := st.Due(ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20, Probe: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := status.Read(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if _, _, err := postgres.Config(cfg).Operator().List(ctx, checkpoint.Selection{All: true}, 0, true); err != nil {
		t.Fatal(err)
	}
	r.Exec(setup.UninstallScript(r.Cfg)[strings.Index(setup.UninstallScript(r.Cfg), "DO $"):strings.Index(setup.UninstallScript(r.Cfg), "-- if no")])
}

// Triggers of users' tables find what the role's search path leads to: at once, and at the transaction's end. Nothing else has that path.
func TestTriggersHaveTheRolesPath(t *testing.T) {
	t.Parallel()
	table := pgtest.Shape("debezium", "outbox")
	table.Schema = ""
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
	r.Exec(`CREATE SCHEMA shop; CREATE TABLE shop.seen (path text); CREATE TABLE shop.orders (id uuid, told text);
		CREATE FUNCTION shop.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_setting('search_path')); RETURN OLD; END $$`)
	role := r.Role("relay", "")
	r.Exec("ALTER ROLE " + role + " SET search_path = shop, public; ALTER ROLE " + role + " WITH REPLICATION; GRANT USAGE, CREATE ON SCHEMA shop TO " + role)
	cfg := r.As(role)
	r.Exec("GRANT CREATE ON DATABASE " + sqltext.Ident(r.DB) + " TO " + role)
	if _, err := setup.Init(r.Ctx, cfg); err != nil {
		t.Fatal(err)
	}
	pgtest.Equal(t, "where things were created", r.Text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'shop' AND tableowner = $1", role), "4")
	r.Exec("GRANT ALL ON ALL TABLES IN SCHEMA shop TO " + role)
	r.Exec("CREATE TRIGGER before BEFORE DELETE ON shop.outbox FOR EACH ROW EXECUTE FUNCTION shop.see()")
	r.Exec("CREATE CONSTRAINT TRIGGER late AFTER DELETE ON shop.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shop.see()")
	cfg.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET told = current_setting('search_path') WHERE id = :id::uuid"}
	st, err := pgstore.Open(r.Ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close(r.Ctx) }()
	if _, err := st.Load(r.Ctx); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 4; n++ {
		r.Exec("INSERT INTO shop.outbox (id, aggregatetype, aggregateid, type) VALUES ($1, 'a', 'b', 'c')", sourcetest.EventID(n))
		r.Exec("INSERT INTO shop.orders VALUES ($1)", sourcetest.EventID(n))
	}
	settle := func(s checkpoint.Settlement) {
		t.Helper()
		s.Checkpoint = func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "1/1", Resume: "0/1", Log: 1}
		}
		if _, err := st.Settle(r.Ctx, &s); err != nil {
			t.Fatal(err)
		}
	}
	at := func(n int) *outbox.Message {
		m := pgtest.Msg(n, "g")
		m.Table = "shop.outbox"
		return m
	}
	settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(at(1), false)}})
	settle(checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Dead("kafka", at(2), true)}, Rows: []checkpoint.Row{sourcetest.RowOf(at(2), true), sourcetest.RowOf(at(3), false)}})
	pgtest.Equal(t, "what triggers saw", r.Text("SELECT string_agg(path, '; ') FROM shop.seen"), strings.TrimSuffix(strings.Repeat("shop, public; ", 6), "; "))
	pgtest.Equal(t, "what feedback saw", r.Text("SELECT told FROM shop.orders WHERE id = $1", sourcetest.EventID(2)), "shop, public")
	var path string
	if err := st.Conn.QueryRow(r.Ctx, "SELECT pg_catalog.current_setting('search_path')").Scan(&path); err != nil || path != "pg_catalog, pg_temp" {
		t.Errorf("the session's path is %q, %v", path, err)
	}
}
