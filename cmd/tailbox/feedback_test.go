package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const feedbackConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  reconcile: 0s
  tables:
    - name: outbox
      shape: tailbox
      columns: {receipt: answer}
      feedback:
        delivered: UPDATE orders SET state = 'sent', note = :receipt WHERE id = :correlation_id::int
        retrying: UPDATE orders SET state = 'retrying', note = :attempt || ' ' || :sink WHERE id = :correlation_id::int
        dead: UPDATE orders SET state = 'dead', note = :class WHERE id = :"correlation_id"::int AND :type::text <> 'Broken'
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
retry: {attempts: 100, schedule: [1s]}
on_exhausted: skip
admin: {listen: off}
`

// states are the states of orders.
func (r *rig) states() string {
	r.t.Helper()
	rows, err := r.conn.Query(r.t.Context(), "SELECT concat_ws(' ', id, state, note) FROM orders ORDER BY id")
	if err != nil {
		r.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(lines, ", ")
}

// TestFeedback follows business rows through the outcomes of their messages; what is wrong with a statement is told before the
// start, and stops nothing afterwards.
func TestFeedback(t *testing.T) {
	t.Parallel()
	e := &endpoint{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r := newRig(t, feedbackConfig)
	r.env["API_URL"] = server.URL
	r.must("init")
	if got := r.command("check"); got.code != exitFailed || strings.Count(got.out+got.err, "cannot be carried out") != 3 {
		t.Errorf("check without the business table: %d\n%s%s", got.code, got.out, got.err)
	}
	order := func(n int, typ, payload string) {
		t.Helper()
		r.sql(fmt.Sprintf(`WITH o AS (INSERT INTO orders (id) VALUES (%d)) INSERT INTO outbox (id, type, payload, correlation_id)
			VALUES (gen_random_uuid(), '%s', '%s', '%[1]d')`, n, typ, payload))
	}
	r.sql("CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL DEFAULT 'new' CHECK (state <> 'dead' OR id <> 13), note text)")
	if got := r.command("check"); got.code != exitDone {
		t.Errorf("check: %d\n%s%s", got.code, got.out, got.err)
	}
	stop := r.relay()
	order(1, "Placed", "{}")
	order(2, "Placed", "bad")
	order(13, "Placed", "bad") // whose feedback a constraint refuses
	until(t, "the outcomes", func() bool { return r.states() == "1 sent api: 200, 2 dead permanent, 13 new" })
	// The order 13 looks the same before and after its message.
	until(t, "both dead letters", func() bool { return r.ask("SELECT count(*) FROM tailbox_parked WHERE state = 'dead'") == "2" })
	e.mu.Lock()
	e.down = true
	e.mu.Unlock()
	order(3, "Placed", "{}")
	retrying := regexp.MustCompile(`3 retrying [1-9]\d? api, 13 new$`)
	until(t, "a retry", func() bool { return retrying.MatchString(r.states()) })
	e.mu.Lock()
	e.down = false
	e.mu.Unlock()
	until(t, "its delivery", func() bool { return strings.HasSuffix(r.states(), "3 sent api: 200, 13 new") })
	if status := r.must("status"); !strings.Contains(status, "dead of table public.outbox failed 1 time") || !strings.Contains(status, "orders_check") {
		t.Errorf("status does not tell of feedback that failed:\n%s", status)
	}
	r.sql("DROP TABLE orders")
	r.sql("INSERT INTO outbox (id, type, payload) VALUES (gen_random_uuid(), 'Later', '{}')")
	until(t, "a message without its business table", func() bool { return strings.HasSuffix(e.got(), "Later") })
	var n int
	until(t, "its row", func() bool {
		if err := r.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE status = 'delivered' AND answer = 'api: 200'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 3
	})
	if got := stop(); got.code != exitDone || !strings.Contains(got.err, "feedback failed") {
		t.Errorf("run: exit code %d\n%s", got.code, got.err)
	}
}

const tenantConfig = `
pipeline: %[1]s
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}_%[1]s"
  publication: "${SLOT}_%[1]s"
  reconcile: 200ms
  tables: [{name: outbox, shape: tailbox, on_delivered: delete, columns: {status: ~, delivered_at: ~}, tenants: [%[1]s]}]
sinks: {out: {kind: file, path: %[1]s.json}}
admin: {listen: off}
`

// TestTenants: two pipelines share a table whose rows are deleted, each with its own tenant's; the rows of a third stay.
func TestTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, fmt.Sprintf(tenantConfig, "red"))
	first := *r
	second := *r
	second.file = strings.TrimSuffix(r.file, "tailbox.yaml") + "blue.yaml"
	writeFile(t, second.file, fmt.Sprintf(tenantConfig, "blue"))
	first.must("init")
	second.must("init")
	stopFirst, stopSecond := first.relay(), second.relay()
	for range 5 {
		r.sql("INSERT INTO outbox (id, type, payload, tenant) SELECT gen_random_uuid(), t, '{}', t FROM unnest(ARRAY['red', 'green', 'blue', NULL]) t WHERE t IS NOT NULL")
	}
	left := func() string {
		var text string
		if err := r.conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(tenant, ' '), '') FROM outbox").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	until(t, "both pipelines", func() bool { return left() == "green green green green green" })
	// Several comparisons of the table with the log find nothing of theirs.
	for range 3 {
		r.sql("INSERT INTO outbox (id, type, payload, tenant) VALUES (gen_random_uuid(), 'blue', '{}', 'blue')")
		until(t, "one more", func() bool { return left() == "green green green green green" })
	}
	for _, stop := range []func() result{stopFirst, stopSecond} {
		if got := stop(); got.code != exitDone || strings.Contains(got.err, "log does not hold") {
			t.Errorf("run: exit code %d\n%s", got.code, got.err)
		}
	}
	for name, n := range map[string]int{"red": 5, "blue": 8} {
		data, err := os.ReadFile(strings.TrimSuffix(r.file, "tailbox.yaml") + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(data), "\n") != n || strings.Count(string(data), `"type":"`+name+`"`) != n {
			t.Errorf("%s got\n%swant %d of its own", name, data, n)
		}
	}
}

const retentionConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  cleanup_interval: 1s
  tables: [{name: outbox, shape: tailbox, retention: 1h}]
sinks: {api: {kind: http, url: "${API_URL}", format: single, payload_compression: zstd}}
on_exhausted: skip
admin: {listen: "127.0.0.1:0"}
`

// TestRetention: a running relay removes what was delivered long ago, and nothing else.
func TestRetention(t *testing.T) {
	t.Parallel()
	e := &endpoint{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r := newRig(t, retentionConfig)
	r.env["API_URL"] = server.URL
	r.must("init")
	stop := r.relay()
	r.sql("INSERT INTO outbox (id, type, payload) SELECT gen_random_uuid(), 'T' || i, convert_to(CASE WHEN i % 10 = 0 THEN 'bad' ELSE 'good' END, 'UTF8') FROM generate_series(1, 100) i")
	count := func(where string) (n int) {
		t.Helper()
		if err := r.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE "+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until(t, "all outcomes", func() bool { return count("status = 'delivered'") == 90 && count("status = 'dead'") == 10 })
	r.sql("UPDATE outbox SET delivered_at = now() - interval '2 hours', last_attempt_at = now() - interval '2 hours' WHERE right(type, 1) <> '1'")
	until(t, "old rows to be removed", func() bool { return count("true") == 20 })
	if dead, young := count("status = 'dead'"), count("status = 'delivered' AND right(type, 1) = '1'"); dead != 10 || young != 10 {
		t.Errorf("%d dead and %d young rows stayed, want 10 each", dead, young)
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: exit code %d\n%s", got.code, got.err)
	}
}
