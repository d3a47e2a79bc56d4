package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

const goneConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", tables: TABLES, messages: tailbox, reconcile: 0s}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestTableIsGoneWhileParked: what is parked of a table that is no longer in the configuration cannot be routed, so the relay does not
// go on before an operator has decided; it must not become dead letters by itself.
func TestTableIsGoneWhileParked(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	configure := func(tables string) {
		t.Helper()
		if err := os.WriteFile(r.file, []byte(strings.Replace(goneConfig, "TABLES", tables, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	both, one := "[{name: outbox}, {name: old}]", "[{name: outbox}]"
	configure(both)
	r.must("init")
	park := func(table, id, state string, due bool) {
		t.Helper()
		r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_id, message_group, position, type, topic, payload, state, blocks, alone, next_attempt_at)
			VALUES ('shop', 'out', $1, $2, $2, '00000001-0000000000000001-00000001', $2, 't', '{}', $3, $3 <> 'dead', false, CASE WHEN $4 THEN now() END)`, table, id, state, due)
	}
	park("public.old", "11111111-1111-1111-1111-111111111111", "retrying", true)
	park("public.old", "22222222-2222-2222-2222-222222222222", "dead", false)
	park("public.outbox", "33333333-3333-3333-3333-333333333333", "dead", false)
	park("pg_logical_emit_message.tailbox", "emitted", "dead", false)

	configure(one)
	const want = "not in the configuration: public.old"
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, want) || strings.Contains(got.out, "configuration: public.outbox") || strings.Contains(got.out, "emit_message.tailbox") {
		t.Errorf("check: %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // where it does start
	defer cancel()
	if got := r.with(ctx, "run"); got.code != exitAct || !strings.Contains(got.err, want) || !strings.Contains(got.err, "tailbox dead drop --table") {
		t.Errorf("run: %+v", got)
	}
	if states := r.parkedStates(); states["retrying"] != 1 || states["dead"] != 3 {
		t.Errorf("after the start was refused: %v", states)
	}

	// Either fix lets it start.
	configure(both)
	stop := r.relay()
	until(t, "the one that was due", func() bool { return len(r.delivered()) == 1 && r.parkedStates()["retrying"] == 0 })
	if got := stop(); got.code != exitDone {
		t.Errorf("run with the table: %+v", got)
	}
	configure(one)
	r.must("dead", "drop", "--table", "public.old", "--state", "retrying,waiting,dead", "--all-sinks", "--why", "gone")
	if got := r.ask("SELECT string_agg(source_table, ' ' ORDER BY source_table) FROM tailbox_parked WHERE state = 'dead'"); got != "pg_logical_emit_message.tailbox public.outbox" {
		t.Errorf("left after the drop: %q", got)
	}
	if got := r.command("check"); strings.Contains(got.out, "public.old") {
		t.Errorf("check after the drop: %+v", got)
	}
	stop = r.relay()
	r.must("dead", "replay", "--table", "public.outbox", "--allow-reorder", "--why", "it runs")
	until(t, "the one that was replayed", func() bool { return len(r.delivered()) == 2 })
	if got := stop(); got.code != exitDone {
		t.Errorf("run after the drop: %+v", got)
	}

	// So it is with messages in no table, where their prefix is gone.
	if err := os.WriteFile(r.file, []byte(strings.Replace(strings.Replace(goneConfig, "TABLES", one, 1), "messages: tailbox, ", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, "source.messages: tailbox") {
		t.Errorf("check without the prefix: %+v", got)
	}
}
