package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const namelessConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  reconcile: 200ms
  tables: [{TABLE}]
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: "127.0.0.1:0"}
`

// TestRowsWithoutID: rows whose id is NULL or empty are parked under an id made of their place, once, whatever is read
// again; their groups wait, others flow, and an operator can deliver or drop them.
func TestRowsWithoutID(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"delete": "", "delete with status": "columns: {status: status}, on_delivered: delete",
		"mark": "columns: {status: status}", "keep": "on_delivered: keep"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, strings.Replace(namelessConfig, "TABLE", table, 1))
			r.sql(`CREATE TABLE outbox (id text, aggregatetype text, aggregateid text, type text, payload jsonb, status text DEFAULT 'pending')`)
			if init := r.command("init"); init.code != exitDone || !strings.Contains(init.err, "column id of table public.outbox may be NULL") {
				t.Errorf("init: %+v", init)
			}
			if check := r.command("check"); !strings.Contains(check.out, "column id of table public.outbox may be NULL") ||
				!strings.Contains(check.out, `ALTER TABLE "public"."outbox" ALTER COLUMN "id" SET NOT NULL`) ||
				!strings.Contains(check.out, `CREATE UNIQUE INDEX ON "public"."outbox" ("id")`) {
				t.Errorf("check: %s", check.out)
			}
			stop := r.relay()
			r.copyRows([]any{nil, "a", "1", "x1"}, []any{"", "a", "1", "x2"}, []any{"i1", "a", "1", "y1"}, []any{nil, "a", nil, "x3"},
				[]any{"i2", "a", "2", "z1"})
			parked := func(dead, waiting int) func() bool {
				return func() bool { s := r.parkedStates(); return s["dead"] == dead && s["waiting"] == waiting }
			}
			until(t, "two dead letters, and two that wait", func() bool { return parked(2, 2)() && slices.Equal(r.delivered(), []string{"z1"}) })
			before := r.namelessIDs()
			if list := r.must("dead", "list"); strings.Count(list, "tailbox-no-id:") != 2 || len(before) != 3 {
				t.Errorf("dead list (%d ids):\n%s", len(before), list)
			}
			stop()
			stop = r.relay()
			r.copyRows([]any{"i3", "a", "2", "z2"})
			want := []string{"z1", "z2"}
			if name != "keep" {
				// The next reconciliation finds a row that got an id, and no other.
				r.sql("UPDATE outbox SET id = 'i4' WHERE type = 'x3'")
				want = append(want, "x3")
			}
			until(t, "what has an id", func() bool { return sameTypes(r.delivered(), want) })
			if !slices.Equal(r.namelessIDs(), before) || !parked(2, 2)() {
				t.Errorf("parked %v, before %v", r.namelessIDs(), before)
			}
			r.must("dead", "drop", r.parkedID("x3"), "--why", "test")
			r.must("dead", "edit", r.parkedID("x1"), "--new-id", "i5", "--why", "test")
			want = append(want, "x1")
			until(t, "what stands before the next without an id", func() bool { return parked(1, 1)() && sameTypes(r.delivered(), want) })
			r.must("dead", "drop", r.parkedID("x2"), "--why", "test")
			want = append(want, "y1")
			until(t, "the group", func() bool { return sameTypes(r.delivered(), want) && len(r.parkedStates()) == 0 })
			if got := r.delivered(); slices.Index(got, "x1") > slices.Index(got, "y1") {
				t.Errorf("delivered %v", got)
			}
			got := stop()
			if (name != "keep") != strings.Contains(got.err, "pending rows without an id") {
				t.Errorf("run: %s", got.err)
			}
			if name == "keep" {
				return
			}
			// A sweep cannot know what became of them: it parks them anew, once.
			for range 2 {
				r.sql("SELECT pg_drop_replication_slot($1)", r.env["SLOT"])
				stop = r.relay()
				r.copyRows([]any{"z" + strings.Repeat("z", len(want)), "a", "2", "z3"})
				want = append(want, "z3")
				until(t, "the sweep", func() bool { return sameTypes(r.delivered(), want) && parked(1, 1)() })
				stop()
			}
		})
	}
}

// sameTypes compares without regard to the order of groups.
func sameTypes(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

func (r *rig) copyRows(rows ...[]any) {
	r.t.Helper()
	if _, err := r.conn.CopyFrom(r.t.Context(), pgx.Identifier{"outbox"}, []string{"id", "aggregatetype", "aggregateid", "type"},
		pgx.CopyFromRows(rows)); err != nil {
		r.t.Fatal(err)
	}
}

// namelessIDs are the ids that were made for rows without one.
func (r *rig) namelessIDs() (ids []string) {
	r.t.Helper()
	if err := r.conn.QueryRow(r.t.Context(), "SELECT array_agg(message_id ORDER BY position) FROM tailbox_parked WHERE sink = ''").Scan(&ids); err != nil {
		r.t.Fatal(err)
	}
	return ids
}

// parkedID is the id under which a message of a type is parked.
func (r *rig) parkedID(typ string) (id string) {
	r.t.Helper()
	if err := r.conn.QueryRow(r.t.Context(), "SELECT message_id FROM tailbox_parked WHERE type = $1", typ).Scan(&id); err != nil {
		r.t.Fatal(err)
	}
	return id
}
