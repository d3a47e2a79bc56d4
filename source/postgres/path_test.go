package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// traps has somebody who may create things in the schema public, and nothing else, create operators and functions there that fit better
// than the server's, do as those do, and note who runs them.
func (r *rig) traps() {
	r.t.Helper()
	r.exec("CREATE TABLE public.loot (who text, what text)")
	r.exec("GRANT INSERT ON public.loot TO PUBLIC; GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC")
	mallory := r.role("mallory", "")
	sql := []string{"SET ROLE " + quoteIdent(mallory)}
	trap := func(name, args, returns, result string) {
		sql = append(sql, fmt.Sprintf(`CREATE FUNCTION public.%[1]s(%[2]s) RETURNS %[3]s LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO public.loot VALUES (current_user, %[4]s); %[5]s; END $$`, name, args, returns, quoteLiteral(name+"("+args+")"), result))
	}
	for i, pair := range [][2]string{{"varchar", "varchar"}, {"varchar", "text"}, {"text", "varchar"}, {"oid", "regclass"}, {"regclass", "oid"}, {"name", "varchar"}} {
		for j, op := range []string{"=", "<>", "<", ">"} {
			name := fmt.Sprintf("trap_%d_%d", i, j)
			as := "text"
			if strings.Contains(pair[0]+pair[1], "oid") {
				as = "oid"
			}
			trap(name, pair[0]+", "+pair[1], "boolean", "RETURN $1::"+as+" OPERATOR(pg_catalog."+op+") $2::"+as)
			sql = append(sql, fmt.Sprintf("CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%s)", op, pair[0], pair[1], name))
		}
	}
	for _, typ := range []string{"text", "uuid", "bigint", "boolean"} {
		trap("unnest", typ+"[]", "SETOF "+typ, "RETURN QUERY SELECT * FROM pg_catalog.unnest($1)")
	}
	trap("octet_length", "varchar", "integer", "RETURN pg_catalog.octet_length($1::text)")
	trap("left", "varchar, integer", "text", "RETURN pg_catalog.left($1::text, $2)")
	trap("obj_description", "oid, text", "text", "RETURN pg_catalog.obj_description($1, $2::name)")
	r.exec(strings.Join(append(sql, "RESET ROLE"), "; "))
	r.t.Cleanup(func() {
		if r.t.Failed() {
			return
		}
		r.conn = r.connect() // the other one may have ended with its server
		if got := r.text("SELECT pg_catalog.string_agg(DISTINCT who || ' ran ' || what, ', ') FROM public.loot WHERE who OPERATOR(pg_catalog.<>) $1::text",
			mallory); got != "" {
			r.t.Errorf("what others created was run: %s", got)
		}
	})
}

// role makes a role that can log in, as long as the test takes, and grants it something.
func (r *rig) role(name, grants string) string {
	r.t.Helper()
	name += "_" + r.db
	name = name[:min(len(name), 60)]
	r.exec("CREATE ROLE " + quoteIdent(name) + " LOGIN PASSWORD 'p'")
	r.t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + quoteIdent(name) + " CASCADE", "DROP ROLE " + quoteIdent(name)} {
			if err := r.pg.Exec(context.Background(), r.db, sql); err != nil {
				r.t.Logf("%s: %v", sql, err) // the server may be stopped
			}
		}
	})
	if grants != "" {
		r.exec(grants)
	}
	return name
}

// as is the configuration of a connection as another role.
func (r *rig) as(role string) Config {
	cfg := r.cfg
	cfg.URL = strings.Replace(r.pg.SocketURL(r.db), "postgres@", role+":p@", 1)
	return cfg
}

// What somebody creates in a schema of the search path is never run as the relay's role, whatever the relay does: nor as the owner's, who runs
// what init prints.
func TestOthersCodeIsNotRun(t *testing.T) {
	t.Parallel()
	table := shape("memo", "email_outbox")
	table.Schema, table.Retention, table.Tenants = "", 1, []string{"a", "b"}
	table.Columns.Tenant = "tenant"
	r := newBareRig(t, servers.Shared(t, "17"), table)
	r.traps()
	ctx := r.ctx
	r.cfg.Feedback = nil
	script, err := r.cfg.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	r.exec(script)
	if _, err := r.cfg.Init(ctx); err != nil {
		t.Fatal(err)
	}
	r.own()
	cfg := r.as(r.role("relay", ""))
	role := "relay_" + r.db
	r.exec(RoleSQL(r.cfg, role[:min(len(role), 60)]))
	if _, err := cfg.Check(ctx); err != nil {
		t.Fatal(err)
	}
	c := &r.cfg.Tables[0].Columns
	add := func(n int, status string) {
		r.exec(fmt.Sprintf(`INSERT INTO email_outbox (id, %s, %s, payload, recipient_email, notification_type, status, tenant, %s)
			VALUES ($1::uuid, $1::uuid, 't', '{}', 'r', 'n', $2, 'a', CASE WHEN $3 THEN now() - interval '1 day' END)`,
			c.CorrelationID, c.Type, c.DeliveredAt), eventID(n), status, status == r.cfg.Tables[0].Words.Delivered)
	}
	add(1, r.cfg.Tables[0].Words.Pending)
	add(2, r.cfg.Tables[0].Words.Delivered)
	st, err := openStore(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close(ctx) }()
	if _, err := st.Load(ctx); err != nil {
		t.Fatal(err)
	}
	snap, err := New(cfg).Establish(ctx)
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
	if _, err := st.Settle(ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{head("kafka", ms[0], 0)}, Rows: []checkpoint.Row{rowOf(ms[0], true)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Settle(ctx, &checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", ms[0])}}); err != nil {
		t.Fatal(err)
	}
	if removed, _, err := st.Clean(ctx, ""); err != nil || removed == 0 {
		t.Fatalf("removed %d: %v", removed, err)
	}
	if _, _, err := st.Due(ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20, Probe: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Status(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cfg.Operator().List(ctx, checkpoint.Selection{All: true}, 0, true); err != nil {
		t.Fatal(err)
	}
	r.exec(uninstallSQL(r.cfg)[strings.Index(uninstallSQL(r.cfg), "DO $"):strings.Index(uninstallSQL(r.cfg), "-- if no")])
}

// Triggers of users' tables find what the role's search path leads to: at once, and at the transaction's end. Nothing else has that path.
func TestTriggersHaveTheRolesPath(t *testing.T) {
	t.Parallel()
	table := shape("debezium", "outbox")
	table.Schema = ""
	r := newBareRig(t, servers.Shared(t, "17"), table)
	r.exec(`CREATE SCHEMA shop; CREATE TABLE shop.seen (path text); CREATE TABLE shop.orders (id uuid, told text);
		CREATE FUNCTION shop.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_setting('search_path')); RETURN OLD; END $$`)
	role := r.role("relay", "")
	r.exec("ALTER ROLE " + role + " SET search_path = shop, public; ALTER ROLE " + role + " WITH REPLICATION; GRANT USAGE, CREATE ON SCHEMA shop TO " + role)
	cfg := r.as(role)
	r.exec("GRANT CREATE ON DATABASE " + quoteIdent(r.db) + " TO " + role)
	if _, err := cfg.Init(r.ctx); err != nil {
		t.Fatal(err)
	}
	equal(t, "where things were created", r.text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'shop' AND tableowner = $1", role), "4")
	r.exec("GRANT ALL ON ALL TABLES IN SCHEMA shop TO " + role)
	r.exec("CREATE TRIGGER before BEFORE DELETE ON shop.outbox FOR EACH ROW EXECUTE FUNCTION shop.see()")
	r.exec("CREATE CONSTRAINT TRIGGER late AFTER DELETE ON shop.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shop.see()")
	cfg.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET told = current_setting('search_path') WHERE id = :id::uuid"}
	st, err := openStore(r.ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close(r.ctx) }()
	if _, err := st.Load(r.ctx); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 4; n++ {
		r.exec("INSERT INTO shop.outbox (id, aggregatetype, aggregateid, type) VALUES ($1, 'a', 'b', 'c')", eventID(n))
		r.exec("INSERT INTO shop.orders VALUES ($1)", eventID(n))
	}
	settle := func(s checkpoint.Settlement) {
		t.Helper()
		s.Checkpoint = func([]int) *checkpoint.Checkpoint {
			return &checkpoint.Checkpoint{SourceID: "1/1", Resume: "0/1", Log: 1}
		}
		if _, err := st.Settle(r.ctx, &s); err != nil {
			t.Fatal(err)
		}
	}
	at := func(n int) *outbox.Message {
		m := msg(n, "g")
		m.Table = "shop.outbox"
		return m
	}
	settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(at(1), false)}})
	settle(checkpoint.Settlement{Park: []checkpoint.Parked{dead("kafka", at(2), true)}, Rows: []checkpoint.Row{rowOf(at(2), true), rowOf(at(3), false)}})
	equal(t, "what triggers saw", r.text("SELECT string_agg(path, '; ') FROM shop.seen"), strings.TrimSuffix(strings.Repeat("shop, public; ", 6), "; "))
	equal(t, "what feedback saw", r.text("SELECT told FROM shop.orders WHERE id = $1", eventID(2)), "shop, public")
	var path string
	if err := st.conn.QueryRow(r.ctx, "SELECT pg_catalog.current_setting('search_path')").Scan(&path); err != nil || path != "pg_catalog, pg_temp" {
		t.Errorf("the session's path is %q, %v", path, err)
	}
}
