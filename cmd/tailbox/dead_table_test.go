package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestDeadTable: where tables number their rows, an ID is one of several messages: nothing is done to any of them until --table says which
// is meant.
func TestDeadTable(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	for n, table := range []string{"public.orders_outbox", "public.mail_outbox"} {
		r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, payload)
			VALUES ('shop', 'api', $1, $1, '00000001-0000000000000001-0000000' || $2::int, '5', 'dead', true, false, 'T', 'x', 'old')`, table, n)
	}
	payloads := func() string {
		t.Helper()
		rows, err := r.conn.Query(t.Context(), `SELECT source_table || ' ' || state || ' ' || convert_from(payload, 'UTF8') FROM tailbox_parked ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, ", ")
	}
	before := "public.mail_outbox dead old, public.orders_outbox dead old"
	for _, line := range [][]string{{"edit", "5", "--payload", "new"}, {"replay", "5"}, {"drop", "5", "--why", "test"}, {"drop", "5", "--dry-run"}} {
		got := r.command(append([]string{"dead"}, line...)...)
		if got.code == exitDone || !strings.Contains(got.err, "name --table") || !strings.Contains(got.err, "public.mail_outbox, public.orders_outbox") {
			t.Errorf("dead %v: %+v", line, got)
		}
		if now := payloads(); now != before {
			t.Fatalf("dead %v: left %s", line, now)
		}
	}
	if got := r.must("dead", "list", "--table", "mail_outbox"); strings.Count(got, "dead") != 1 {
		t.Errorf("dead list --table:\n%s", got)
	}
	if got := r.must("dead", "show", "5", "--table", "public.mail_outbox"); !strings.Contains(got, "public.mail_outbox") || strings.Contains(got, "orders_outbox") {
		t.Errorf("dead show --table:\n%s", got)
	}
	r.must("dead", "edit", "5", "--table", "orders_outbox", "--payload", "new")
	if got := payloads(); got != "public.mail_outbox dead old, public.orders_outbox waiting new" {
		t.Errorf("after dead edit --table: %s", got)
	}
	r.must("dead", "drop", "5", "--table", "public.mail_outbox", "--why", "test")
	if got := payloads(); got != "public.mail_outbox dropped old, public.orders_outbox waiting new" {
		t.Errorf("after dead drop --table: %s", got)
	}
	if got := r.command("dead", "replay", "--table", "public.mail_outbox"); got.code != exitUsage || !strings.Contains(got.err, "nothing is parked of a table \"public.mail_outbox\"") {
		t.Errorf("dead replay of what is dropped: %+v", got)
	}
}

const quotedTableConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{name: '"My.Out""Box"', shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestDeadTableQuoted: --table takes the name as the configuration has it, and as lists show it; one that is nothing's is refused.
func TestDeadTableQuoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, quotedTableConfig)
	r.must("init")
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, payload)
		VALUES ('shop', 'out', 'public.My.Out"Box', 'g', '00000001-0000000000000001-00000001', 'x1', 'dead', true, false, 'T', 'x', 'old'),
		('shop', 'out', 'public.gone', 'g', '00000001-0000000000000001-00000002', 'x2', 'dead', true, false, 'T', 'x', 'old')`)
	for _, c := range []struct{ table, want string }{
		{`"My.Out""Box"`, "x1"}, {`My.Out"Box`, "x1"}, {`public."My.Out""Box"`, "x1"}, {`public.My.Out"Box`, "x1"}, {"gone", "x2"}, {`"gone"`, "x2"}, {"public.gone", "x2"},
	} {
		got := r.must("dead", "list", "--table", c.table) + r.must("dead", "replay", "--table", c.table, "--dry-run")
		if got += r.must("dead", "show", c.want, "--table", c.table); strings.Count(got, c.want) != 3 || strings.Count(got, "x1")+strings.Count(got, "x2") != 3 {
			t.Errorf("--table %s:\n%s", c.table, got)
		}
	}
	for _, line := range [][]string{{"list"}, {"show", "x1"}, {"replay", "x1"}, {"drop", "x1", "--why", "test"}, {"edit", "x1", "--type", "T"}} {
		for _, table := range []string{"nowhere", `"My`, "other.gone"} {
			got := r.command(append(append([]string{"dead"}, line...), "--table", table)...)
			if got.code != exitUsage || !strings.Contains(got.err, "nothing is parked of a table") || !strings.Contains(got.err, `My.Out"Box`) {
				t.Errorf("dead %v --table %s: %+v", line, table, got)
			}
		}
	}
	r.must("dead", "drop", "--table", `"My.Out""Box"`, "--why", "test")
	if got := r.must("dead", "list"); strings.Contains(got, "x1") || !strings.Contains(got, "x2") {
		t.Errorf("after dead drop --table:\n%s", got)
	}
	if got := r.must("send", "--table", `"My.Out""Box"`, "--type", "T", "{}"); got == "" {
		t.Error("send --table printed no id")
	}
}
