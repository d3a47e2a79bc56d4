package main

import (
	"os"
	"strings"
	"testing"
)

const checkedConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  tables:
  - name: flags
    shape: tailbox
    columns: {status: processed, id: uniqueRequestId, created_at: creation_time}
  - {name: kept, shape: tailbox, on_delivered: keep, columns: {status: ~, delivered_at: ~}}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestCheckWords: what is found about a table names what can be done about it: a column of another spelling, a column to leave out, a
// boolean that cannot be a status. That a table cannot be swept is said before and after the slot exists.
func TestCheckWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, checkedConfig)
	r.sql("CREATE TABLE flags (uniquerequestid uuid PRIMARY KEY, type text, message_group text, payload bytea, processed boolean, delivered_at timestamptz, creation_time bigint)")
	r.sql("CREATE TABLE kept (id uuid PRIMARY KEY, type text, payload bytea)")
	const unswept = "table public.kept cannot be swept"
	got := r.command("check")
	for _, want := range []string{"did you mean uniquerequestid?", "created_at: null", "is a boolean", "delivered_at", unswept} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check does not say %q:\n%s", want, got.out)
		}
	}
	for _, not := range []string{"stopped until an operator acts", `no value "null"`} {
		if strings.Contains(got.out, not) {
			t.Errorf("check says %q:\n%s", not, got.out)
		}
	}
	writeFile(t, r.file, strings.Replace(checkedConfig, "{status: processed, id: uniqueRequestId, created_at: creation_time}",
		"{status: ~, id: uniquerequestid, created_at: ~}", 1))
	r.must("init")
	if out := r.must("check"); strings.Count(out, unswept) != 1 {
		t.Errorf("check after init:\n%s", out)
	}
	// The table has no column topic, which the shape names: the type is the topic.
	if out := r.must("check"); !strings.Contains(out, `example of table flags (made up): type "OrderPlaced" becomes topic "OrderPlaced", to out`) {
		t.Errorf("check of an empty table:\n%s", out)
	}
	out := r.must("check")
	for _, want := range []string{"\nlooked at: the configuration; settings, rights and log of the server (postgres), and what is parked; tables: flags, kept", "sinks: out\n"} {
		if !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("check does not say %q:\n%s", want, out)
		}
	}
	stop := r.relay()
	r.sql("INSERT INTO flags (uniquerequestid, type, payload) VALUES (gen_random_uuid(), 'OrderPlaced', '{}')")
	until(t, "the message", func() bool { return len(r.delivered()) == 1 })
	stop()
	r.sql("UPDATE flags SET type = 'Paid', payload = 'secret'")
	if out := r.must("check"); !strings.Contains(out, `example of table flags (a row that is there): type "Paid" becomes topic "Paid", a key of 0 bytes, a payload of 6 bytes, no group, to out`) || strings.Contains(out, "secret") {
		t.Errorf("check of a table with a row:\n%s", out)
	}
	lines, err := os.ReadFile(r.lines)
	if err != nil || !strings.Contains(string(lines), `"topic":"OrderPlaced"`) {
		t.Errorf("delivered %s, want the type as its topic: %v", lines, err)
	}
}

// TestCheckMakesUpARow: the example of an empty table has what placements, topics and references ask for. If no route takes it, a row may have another
// value.
func TestCheckMakesUpARow(t *testing.T) {
	t.Parallel()
	r := newRig(t, `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  tables:
  - name: placed
    shape: debezium
    router: {table.fields.additional.placement: "category:header,shard:partition,kind:envelope"}
  - {name: symfony, shape: tailbox, on_delivered: keep, topic: "app.${header.region}.${type}", columns: {type: "${header.type}", group: "${payload.order.id}", status: ~, delivered_at: ~}}
  - {name: mapped, shape: tailbox, on_delivered: keep, columns: {topic: destination, type: ~, status: ~, delivered_at: ~}}
  - {name: tenanted, shape: tailbox, on_delivered: keep, tenants: [acme, other], topic: "${tenant}", columns: {topic: ~, status: ~, delivered_at: ~}}
  - {name: named, shape: tailbox, on_delivered: keep, columns: {topic: "${header.target}", status: ~, delivered_at: ~}}
sinks: {out: {kind: file, path: lines.json}}
routes: [{match: {table: ["*.placed", placed, "*.symfony", symfony, "*.mapped", mapped, "*.tenanted", tenanted]}, to: [out]}, {match: {header.vip: "*"}, to: [out]}]
admin: {listen: off}
`)
	r.sql("CREATE TABLE placed (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb, category text, shard int, kind text)")
	r.sql("CREATE TABLE symfony (id uuid PRIMARY KEY, headers jsonb, payload jsonb)")
	r.sql("CREATE TABLE named (id uuid PRIMARY KEY, type text, headers jsonb, payload jsonb)")
	r.sql("CREATE TABLE mapped (id uuid PRIMARY KEY, destination text, payload jsonb)")
	r.sql("CREATE TABLE tenanted (id uuid PRIMARY KEY, type text, tenant text, payload jsonb)")
	r.must("init")
	out := r.must("check")
	for _, want := range []string{
		`example of table mapped (made up): type "", a topic from column destination, to out`,
		`example of table tenanted (made up): type "OrderPlaced" becomes topic "acme", to out`,
		`example of table placed (made up): type "OrderPlaced" becomes topic "outbox.event.order", headers "category", to out`,
		`example of table symfony (made up): type "OrderPlaced" becomes topic "app.region.OrderPlaced", to out`,
		`example of table named (made up): type "OrderPlaced". Topic and route depend on the values of the row`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("check does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "cannot be routed") {
		t.Errorf("check:\n%s", out)
	}
}
