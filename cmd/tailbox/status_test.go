package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	if got := r.must("status"); !strings.Contains(got, "not running") || !strings.Contains(got, "active=false") {
		t.Errorf("status without a relay:\n%s", got)
	}
	r.relay()
	r.send("a1", "a:1", `"bad"`)
	r.send("b1", "b:1", `{}`)
	until(t, "a dead letter", func() bool { return r.parkedStates()["dead"] == 1 && e.got() == "b1" })
	got := r.must("status")
	for _, want := range []string{"running from", "active=true", "wal_status=reserved", "confirmed_flush_lsn=", "lag ", "checkpoint", "api "} {
		if !strings.Contains(got, want) {
			t.Errorf("status: no %q in\n%s", want, got)
		}
	}
	var report struct {
		Pipeline string
		Slot     struct{ Row map[string]any }
		Holder   *struct{ PID int }
		Sinks    []struct {
			Sink        string
			Dead, Lanes int
			HeldLanes   int `json:"held_lanes"`
		}
	}
	if err := json.Unmarshal([]byte(r.must("status", "-o", "json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Pipeline != "shop" || report.Holder == nil || report.Slot.Row["plugin"] != "pgoutput" || len(report.Sinks) != 1 ||
		report.Sinks[0].Dead != 1 || report.Sinks[0].HeldLanes != 1 {
		t.Errorf("status -o json: %+v", report)
	}
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	stop := r.relay()
	r.send("a1", "a:1", `"bad"`)
	until(t, "a dead letter", func() bool { return r.parkedStates()["dead"] == 1 })
	if got := r.command("uninstall"); got.code != exitFailed || !strings.Contains(got.err, "stop it first") {
		t.Errorf("beside a relay: %+v", got)
	}
	stop()
	if got := r.must("uninstall", "--print"); !strings.Contains(got, "pg_drop_replication_slot") {
		t.Errorf("print: %s", got)
	}
	var refused result
	until(t, "the lock", func() bool {
		refused = r.command("uninstall")
		return !strings.Contains(refused.err, "lock is held")
	})
	if refused.code != exitFailed || !strings.Contains(refused.err, "--force") {
		t.Errorf("with something parked: %+v", refused)
	}
	// The server may take a moment to see that the sessions before have ended.
	var forced result
	until(t, "the lock", func() bool {
		forced = r.command("uninstall", "--force")
		return !strings.Contains(forced.err, "lock is held")
	})
	if !strings.Contains(forced.out, "dropped slot") || !strings.Contains(forced.out, "dropped tables tailbox_*") {
		t.Errorf("uninstall: %+v", forced)
	}
	var again result
	until(t, "the lock", func() bool {
		again = r.command("uninstall")
		return !strings.Contains(again.err, "lock is held")
	})
	if again.code != exitDone || !strings.Contains(again.out, "nothing is there") {
		t.Errorf("uninstall again: %+v", again)
	}
	if got := r.outbox(); len(got) != 0 {
		t.Errorf("the outbox has %v: what is parked was deleted there", got)
	}
}

func TestMetricsAndSinkStates(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	port := servers.FreeAddr(t)
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.file, []byte(strings.Replace(string(text), "listen: off", "listen: "+port, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.relay()
	r.send("a1", "a:1", `"bad"`)
	r.send("b1", "b:1", `{}`)
	until(t, "b1", func() bool { return e.got() == "b1" })
	until(t, "the sink's state", func() bool { return strings.Contains(r.must("sink", "list"), " open ") })
	if got := r.command("run"); got.code != exitFailed || !strings.Contains(got.err, "admin.listen") {
		t.Errorf("second relay on the same address: %+v", got)
	}
	resp, err := http.Get("http://" + port + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tailbox_messages_delivered_total{pipeline="shop",route="api",sink="api"} 1`, `tailbox_leader{pipeline="shop"} 1`,
		`tailbox_messages_dead_total{class="permanent",pipeline="shop",route="api",sink="api"} 1`, `tailbox_source_connected{pipeline="shop"} 1`} {
		if !strings.Contains(string(body), want+"\n") {
			t.Errorf("metrics: no %s", want)
		}
	}
}

// TestFailingSinkIsShown: while a sink fails, sink list and status say so, also as JSON.
func TestFailingSinkIsShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(server.Close)
	r := newRig(t, strings.Replace(endpointConfig, "listen: off", "listen: "+servers.FreeAddr(t), 1))
	r.env["API_URL"] = server.URL
	r.must("init")
	r.relay()
	for _, group := range []string{"a", "b", "c"} {
		r.send("x", group+":1", `{}`)
	}
	until(t, "the state failing", func() bool { return strings.Contains(r.must("sink", "list"), " failing ") })
	if got := r.must("status"); !strings.Contains(got, "STATE") || !strings.Contains(got, " failing ") {
		t.Errorf("status:\n%s", got)
	}
	var report struct {
		Sinks []struct{ Sink, State string }
	}
	if err := json.Unmarshal([]byte(r.must("status", "-o", "json")), &report); err != nil || len(report.Sinks) != 1 || report.Sinks[0].State != "failing" {
		t.Errorf("status -o json: %+v, %v", report, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, endpointConfig)
	server := httptest.NewServer(&endpoint{})
	t.Cleanup(server.Close)
	r.env["API_URL"] = server.URL
	if got := r.must("check", "--offline"); got != "the configuration is right\n" {
		t.Errorf("check --offline: %s", got)
	}
	before := r.command("check")
	for _, want := range []string{"problem: the tables tailbox_* are missing", "fix:   run tailbox init"} {
		if before.code != exitFailed || !strings.Contains(before.out, want) {
			t.Errorf("check before init: no %q in %+v", want, before)
		}
	}
	r.must("init")
	if got := r.must("check"); strings.Contains(got, "problem:") {
		t.Errorf("check after init:\n%s", got)
	}
	var findings []struct{ Level, What, Fix string }
	if err := json.Unmarshal([]byte(r.must("check", "-o", "json")), &findings); err != nil {
		t.Error(err)
	}
	short := "warning: admin.token has fewer than 20 characters"
	for token, warned := range map[string]bool{"0123456789012345678": true, "01234567890123456789": false} {
		writeFile(t, r.file, strings.Replace(endpointConfig, "listen: off", "listen: off, token: '"+token+"'", 1))
		if got := r.must("check"); strings.Contains(got, short) != warned || strings.Contains(got, token) {
			t.Errorf("check with admin.token %s:\n%s", token, got)
		}
	}
	writeFile(t, r.file, endpointConfig)
	r.sql("DROP PUBLICATION tailbox_shop")
	if got := r.command("check"); got.code != exitFailed {
		t.Errorf("check without the publication: %+v", got)
	}
	r.env["DATABASE_URL"] = "postgres://postgres@127.0.0.1:1/x"
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, "connection refused") {
		t.Errorf("check without a server: %+v", got)
	}
}

func TestRowsBeforeInit(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]string{"pending": "old new", "now": "new"} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			e := &endpoint{}
			server := httptest.NewServer(e)
			t.Cleanup(server.Close)
			// A table that is delivered and kept, without a status: nothing tells what is pending.
			r := newRig(t, strings.Replace(endpointConfig, "reconcile: 0s", "reconcile: 0s, start: \"${START:-}\", tables: [{on_delivered: keep}]", 1))
			r.env["API_URL"] = server.URL
			r.sql(r.must("init", "--print"))
			r.sql(`INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('a', '1', 'old', '{}')`)
			if got := r.command("init"); got.code != exitAct || !strings.Contains(got.err, "source.start") {
				t.Errorf("init without a word: %+v", got)
			}
			r.env["START"] = start
			r.must("init")
			r.must("send", "--type", "new", "--group", "a:1", "{}")
			r.relay()
			until(t, "all that is to be sent", func() bool { return e.got() == want })
		})
	}
}
