package main

import (
	"slices"
	"strings"
	"testing"
)

const mixedConfig = `
pipeline: shop
source:
  kind: postgres
  url: "${DATABASE_URL}"
  slot: "${SLOT}"
  start: now
  reconcile: 0s
  tables:
  - {name: outbox, shape: tailbox}
  - {name: second, shape: tailbox, on_delivered: keep, columns: {status: ~, delivered_at: ~}}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestUnsweptBesideNow: a sweep that did not end is made again at a new position. What was written since the first one to a table of which
// source.start says now is not among what that leaves alone.
func TestUnsweptBesideNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, mixedConfig)
	r.sql(r.must("init", "--print"))
	r.sql("INSERT INTO outbox (id, type, message_group, payload) VALUES (gen_random_uuid(), 'pending', 'a:1', '{}')")
	r.sql("INSERT INTO second (id, type, message_group, payload) VALUES (gen_random_uuid(), 'old', 'a:1', '{}')")
	r.must("init") // its sweep is that of the first run
	r.sql("INSERT INTO second (id, type, message_group, payload) VALUES (gen_random_uuid(), 'between', 'a:1', '{}')")
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "source.start to pending") || !strings.Contains(got.err, "second") {
		t.Fatalf("run: exit code %d\n%s", got.code, got.err)
	}
	writeFile(t, r.file, strings.Replace(mixedConfig, "start: now", "start: pending", 1))
	stop := r.relay()
	until(t, "all rows", func() bool { return len(r.delivered()) == 3 })
	stop()
	if got := r.delivered(); !slices.Equal(got, []string{"pending", "old", "between"}) {
		t.Errorf("delivered %v", got)
	}
}
