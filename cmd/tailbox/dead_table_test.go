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
	if got := r.command("dead", "replay", "--table", "public.mail_outbox"); got.code != exitFailed || !strings.Contains(got.err, "nothing matches") {
		t.Errorf("dead replay of what is dropped: %+v", got)
	}
}
