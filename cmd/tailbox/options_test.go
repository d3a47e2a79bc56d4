package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

const optionsConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{name: outbox, shape: tailbox}]}
sinks: {api: {kind: http, url: "${API_URL}", format: single, concurrency: 1}}
retry: {attempts: 3, schedule: [1ms], during_outage: count}
on_exhausted: skip
admin: {listen: "127.0.0.1:0"}
`

// TestMessageOptions: a message's own max_attempts counts instead of the route's, it is not sent before its available_at, and its
// priority decides among those that are due to be retried, but not within a group.
func TestMessageOptions(t *testing.T) {
	t.Parallel()
	e := &endpoint{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r := newRig(t, optionsConfig)
	r.env["API_URL"] = server.URL
	r.must("init")
	stop := r.relay()
	setDown := func(down bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.down = down
	}
	setDown(true)
	r.sql(`INSERT INTO outbox (id, type, payload, max_attempts) SELECT gen_random_uuid(), 'T' || coalesce(n, 0), '{}', n FROM unnest(ARRAY[1, 2, 5, NULL]) n`)
	until(t, "dead letters", func() bool { return r.parkedStates()["dead"] == 4 })
	var attempts string
	if err := r.conn.QueryRow(t.Context(), "SELECT string_agg(type || '=' || attempts, ' ' ORDER BY type) FROM tailbox_parked").Scan(&attempts); err != nil || attempts != "T0=3 T1=1 T2=2 T5=5" {
		t.Errorf("attempts: %s, %v", attempts, err)
	}
	setDown(false)
	r.must("sink", "resume", "api") // it fails, and would be tried again some time later
	r.sql(`INSERT INTO outbox (id, type, payload, available_at) VALUES (gen_random_uuid(), 'later', '{}', now() + interval '3 seconds'), (gen_random_uuid(), 'now', '{}', NULL)`)
	until(t, "what is available", func() bool { return strings.Contains(e.got(), "now") })
	until(t, "what is available later", func() bool { return strings.Contains(e.got(), "later") })
	var early bool
	if err := r.conn.QueryRow(t.Context(), "SELECT delivered_at < available_at FROM outbox WHERE type = 'later'").Scan(&early); err == nil && early {
		t.Error("a message was delivered before its time")
	}
	if !strings.HasPrefix(e.got(), "now later") {
		t.Errorf("delivered: %s", e.got())
	}
	r.must("sink", "pause", "api")
	before := len(strings.Fields(e.got()))
	r.sql(`INSERT INTO outbox (id, type, payload, priority, message_group) SELECT gen_random_uuid(), 'p' || i, '{}', i % 3, CASE WHEN i > 6 THEN 'g' END FROM generate_series(1, 9) i`)
	until(t, "parked messages", func() bool { return r.parkedStates()["waiting"] == 9 })
	r.must("sink", "resume", "api")
	var got []string
	until(t, "all of them", func() bool { got = strings.Fields(e.got())[before:]; return len(got) == 9 })
	place := map[string]int{}
	for i, typ := range got {
		place[typ] = i
	}
	for _, order := range [][]string{{"p2", "p5", "p1", "p4", "p3", "p6"}, {"p7", "p8", "p9"}} {
		for i := range order[1:] {
			if place[order[i]] > place[order[i+1]] {
				t.Errorf("%s came after %s: %s", order[i], order[i+1], fmt.Sprint(got))
			}
		}
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: exit code %d\n%s", got.code, got.err)
	}
}
