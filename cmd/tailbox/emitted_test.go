package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const emittedConfig = `
pipeline: emitted
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", messages: tailbox, reconcile: 0s}
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
retry: {attempts: 2, schedule: [2100ms]}
max_message: 1MiB
admin: {listen: off}
`

// TestEmitted: messages that are in no table take their place among the rows of their transaction, are parked with all their bytes, and are replayed.
func TestEmitted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	refuse := "nothing"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(req.Header.Get("tailbox-type"), refuse) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got = append(got, fmt.Sprint(req.Header.Get("tailbox-type"), ":", req.ContentLength))
	}))
	t.Cleanup(server.Close)
	delivered := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(got, " ")
	}
	refuses := func(typ string) {
		mu.Lock()
		defer mu.Unlock()
		refuse = typ
	}
	r := newRig(t, emittedConfig)
	r.env["API_URL"] = server.URL
	r.must("init")
	r.must("check")
	stop := r.relay()
	emit := func(typ, group, payload string) {
		t.Helper()
		r.sql(`SELECT pg_logical_emit_message(true, 'tailbox', json_build_object('type', $1::text, 'group', $2::text, 'payload_text', $3::text)::text)`, typ, group, payload)
	}
	row := func(typ string) {
		t.Helper()
		r.sql("INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('g', '1', $1, '{}')", typ)
	}
	r.sql("BEGIN")
	row("a")
	emit("b", "g:1", "1")
	row("c")
	r.sql("COMMIT")
	r.sql("BEGIN")
	emit("gone", "g:1", "1")
	r.sql("ROLLBACK")
	r.sql("SELECT pg_logical_emit_message(true, 'somebody', 'anything'), pg_logical_emit_message(true, 'somebody', repeat('large', 100000))")
	emit("d", "g:1", strings.Repeat("x", 300000)) // larger than the read buffer
	until(t, "all in order", func() bool { return delivered() == "a:2 b:1 c:2 d:300000" })

	// A head that fails is parked with its bytes, and holds its group of rows and messages back, over a restart.
	refuses("bad")
	emit("bad", "g:1", "12345")
	row("e")
	emit("f", "g:1", "1")
	r.sql("SELECT pg_logical_emit_message(true, 'tailbox', 'no envelope')")
	until(t, "a dead letter and what waits", func() bool {
		states := r.parkedStates()
		return states["dead"] == 2 && states["waiting"] == 2
	})
	if got := stop(); got.code != exitDone {
		t.Fatalf("run: %+v", got)
	}
	if out := r.must("dead", "list"); !strings.Contains(out, "bad") || !strings.Contains(out, "undecodable") {
		t.Errorf("dead list:\n%s", out)
	}
	if got := r.ask("SELECT convert_from(payload, 'UTF8') || ' ' || source_table FROM tailbox_parked WHERE error_class = 'undecodable'"); got != "no envelope pg_logical_emit_message.tailbox" {
		t.Errorf("parked: %q", got)
	}
	refuses("nothing")
	stop = r.relay()
	r.must("dead", "replay", "--type", "bad")
	until(t, "the group", func() bool { return delivered() == "a:2 b:1 c:2 d:300000 bad:5 e:2 f:1" })
	r.must("dead", "drop", "--reason", "undecodable", "--sink", "", "--why", "test")
	until(t, "nothing parked", func() bool { return len(r.parkedStates()) == 0 })

	// What is too large becomes a dead letter, which holds its group until an operator acts; reading goes on.
	emit("g", "g:1", strings.Repeat("x", 2<<20))
	emit("h", "g:1", "1")
	until(t, "a dead letter that is too large", func() bool {
		return r.ask("SELECT count(*)::text FROM tailbox_parked WHERE state = 'dead' AND error_class = 'too_large' AND message_group = 'g:1'") == "1"
	})
	r.must("dead", "drop", "--reason", "too_large", "--why", "test")
	until(t, "what was behind it", func() bool { return strings.HasSuffix(delivered(), " h:1") })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}

	// Without the slot there is nothing to sweep them from.
	emit("lost", "g:1", "1")
	r.sql("SELECT pg_drop_replication_slot($1)", r.env["SLOT"])
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "accept-gap") {
		t.Errorf("run without its slot: %+v", got)
	}
}
