package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// change replaces a text in the configuration.
func (r *rig) change(old, new string) {
	r.t.Helper()
	text, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		r.t.Fatalf("the configuration has no %q:\n%s", old, text)
	}
	writeFile(r.t, r.file, strings.Replace(string(text), old, new, 1))
}

// ofPipeline is the label that every metric has.
var ofPipeline = regexp.MustCompile(`\{pipeline="[^"]*"\}|pipeline="[^"]*",|,pipeline="[^"]*"`)

// metric reads a line of /metrics, whose name has no label pipeline; "" if there is none.
func (a *apiRig) metric(name string) string {
	a.t.Helper()
	resp, err := http.Get("http://" + a.env["ADMIN"] + "/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text := new(strings.Builder)
	if err := resp.Write(text); err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if value, ok := strings.CutPrefix(ofPipeline.ReplaceAllString(line, ""), name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestReloadByAPI: a change that can be made is made, and one that cannot is refused with what is wrong, in each way of asking.
func TestReloadByAPI(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	second := &endpoint{}
	server := httptest.NewServer(second)
	t.Cleanup(server.Close)
	if got := a.call("operator", "POST", "/config:reload", nil); got.status != http.StatusForbidden {
		t.Errorf("an operator: %d %s", got.status, got.text)
	}
	reload := func(query string, status int, want ...string) answer {
		t.Helper()
		got := a.call("admin", "POST", "/config:reload"+query, nil)
		for _, text := range want {
			if got.status != status || !strings.Contains(got.text, text) {
				t.Errorf("got %d %s, want %d %q", got.status, got.text, status, text)
			}
		}
		return got
	}
	good, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, why string }{
		{"pipeline: shop", "pipeline: other", "the configuration in force stays: pipeline, source.publication cannot change while the relay runs: put it back as it was, or restart the relay"},
		{"reconcile: 0s", "reconcile: 9s", "source.reconcile"},
		{`listen: "${ADMIN}"`, `listen: "127.0.0.1:1"`, "admin.listen"},
		{"retry:", "max_message: 1MiB\nretry:", "max_message"},
		{"retry:", "log: {format: json}\nretry:", "log.format"},
		{"kind: http", "kind: https", "sinks.api.kind"},
		{"{attempts: 1}", "{attempts: 0}", "retry.attempts"},
		{"kind: http, ", "kind: file, path: x, ", "unknown key"},
	} {
		a.change(c.old, c.new)
		reload("?dry_run=true", http.StatusUnprocessableEntity, c.why)
		if got := a.metric("tailbox_config_reload_success"); got != "1" {
			t.Errorf("after a dry run the metric is %q", got)
		}
		reload("", http.StatusUnprocessableEntity, c.why)
		if got := a.metric("tailbox_config_reload_success"); got != "0" {
			t.Errorf("after a refusal the metric is %q", got)
		}
		writeFile(t, a.file, string(good))
		reload("", http.StatusOK, `"state":"done"`, `"changed":[]`)
		if got := a.metric("tailbox_config_reload_success"); got != "1" {
			t.Errorf("the metric is %q", got)
		}
	}
	if a.metric("tailbox_config_reload_success_timestamp_seconds") == "" {
		t.Error("no metric says when")
	}
	a.send("a1", "a:1", `{"x": "bad"}`)
	until(t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })

	// A sink cannot go while something is parked for it.
	a.change("api: {kind: http, url: \"${API_URL}\"", "other: {kind: http, url: \""+server.URL+"\"")
	for _, query := range []string{"?dry_run=true", ""} {
		reload(query, http.StatusUnprocessableEntity, `parked for sinks [\"api\"]`, "tailbox dead drop")
	}
	writeFile(t, a.file, string(good))

	// Routes, sinks, tokens and names of hosts.
	a.change("sinks: {", "routes: [{match: {type: [b*]}, to: [other]}, {to: [api]}]\nlog: {level: debug}\nmemory: 32MiB\nsinks: {other: {kind: http, url: \""+server.URL+"\", format: single}, ")
	a.change("relay.example", "relay2.example")
	a.change("{name: vera, role: viewer, token_file: viewer}", "{name: vera, role: auditor, token_file: viewer}")
	changed := `"changed":["admin.hosts","admin.tokens","log","memory","routes","sinks.other"]`
	reload("?dry_run=true", http.StatusOK, `"state":"dry run"`, changed)
	a.send("b1", "a:2", `{}`)
	until(t, "b1", func() bool { return strings.HasSuffix(a.e.got(), "b1") })
	reload("", http.StatusOK, `"state":"done"`, changed)
	a.send("b2", "a:2", `{}`)
	until(t, "b2", func() bool { return second.got() == "b2" })
	if got := a.call("viewer", "GET", "/deliveries/none", nil); got.status == http.StatusForbidden {
		t.Errorf("the new role is not in force: %d %s", got.status, got.text)
	}
	for host, want := range map[string]int{"relay2.example": http.StatusOK, "relay.example": http.StatusMisdirectedRequest} {
		if got := a.callAs("viewer", "GET", "/sinks", nil, func(r *http.Request) { r.Host = host }); got.status != want {
			t.Errorf("as %s: %d %s", host, got.status, got.text)
		}
	}
	if got := a.ok("viewer", "GET", "/sinks", nil); !strings.Contains(got.text, `"other"`) {
		t.Errorf("the API does not list the new sink: %s", got.text)
	}
	if got := a.metric(`tailbox_sink_state{sink="other",state="open"}`); got != "1" {
		t.Errorf("no metric knows the new sink: %q", got)
	}

	// And back: nothing is parked for the other sink.
	writeFile(t, a.file, string(good))
	reload("", http.StatusOK, `"state":"done"`)
	a.send("b3", "a:2", `{}`)
	until(t, "b3", func() bool { return strings.HasSuffix(a.e.got(), "b3") })
	if got := a.metric(`tailbox_sink_state{sink="other",state="open"}`); got != "" {
		t.Errorf("a metric knows the sink that is gone: %q", got)
	}
	if got := a.stop(); got.code != exitDone || !strings.Contains(got.err, `msg="somebody asks to reload the configuration" by=ada`) {
		t.Errorf("%+v", got)
	}
}

// TestReloadOfTheFirstToken: without tokens there is no API, and a reload brings one.
func TestReloadOfTheFirstToken(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	hangups := make(chan struct{})
	r.hangups = func() <-chan struct{} { return hangups }
	a := newAPIRigOn(t, r, strings.Replace(strings.Replace(apiConfig, "  send: true\n", "", 1), "tokens:", "ours:", 1))
	a.change("ours:", "tokens:")
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	without, _, _ := strings.Cut(string(text), "  hosts:")
	writeFile(t, r.file, without)
	a.start()
	if got := a.call("admin", "GET", "/pipeline", nil); got.status != http.StatusNotFound {
		t.Errorf("without tokens: %d %s", got.status, got.text)
	}
	writeFile(t, r.file, string(text))
	hangups <- struct{}{}
	until(t, "the API", func() bool { return a.call("admin", "GET", "/pipeline", nil).status == http.StatusOK })
	writeFile(t, r.file, without)
	hangups <- struct{}{}
	until(t, "the end of the API", func() bool { return a.call("admin", "GET", "/pipeline", nil).status == http.StatusNotFound })
}

// TestReloadLooksForTheType: routes by type need a column that a table of this shape may lack.
func TestReloadLooksForTheType(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	r.sql(`ALTER TABLE outbox DROP COLUMN type`)
	a := newAPIRigOn(t, r, apiConfig)
	a.e = e
	a.start()
	a.change("sinks: {", "routes: [{match: {type: [b*]}, to: [api]}, {to: [api]}]\nsinks: {")
	if got := a.call("admin", "POST", "/config:reload", nil); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, "no column type") {
		t.Errorf("%d %s", got.status, got.text)
	}
	r.sql(`ALTER TABLE outbox ADD COLUMN type text`)
	if got := a.call("admin", "POST", "/config:reload", nil); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// lock is an endpoint that takes one token.
type lock struct {
	mu    sync.Mutex
	token string
	got   []string
	// refused is how many had another token.
	refused int
}

func (l *lock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+l.token {
		l.refused++
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, "not ", r.Header.Get("Authorization")) // the client sees it
		return
	}
	l.got = append(l.got, r.Header.Get("tailbox-type"))
}

func (l *lock) rotate(token string) { l.mu.Lock(); defer l.mu.Unlock(); l.token = token }
func (l *lock) refusals() int       { l.mu.Lock(); defer l.mu.Unlock(); return l.refused }
func (l *lock) taken() int          { l.mu.Lock(); defer l.mu.Unlock(); return len(l.got) }
func (l *lock) text() string        { l.mu.Lock(); defer l.mu.Unlock(); return strings.Join(l.got, " ") }

// TestRotatedSecret: a secret that was exchanged in its file is used when the destination refuses the old one, and at a reload. What else the file says
// by then waits for a reload.
func TestRotatedSecret(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	door := &lock{token: "first-secret"}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	r.env["API_URL"] = server.URL
	a := newAPIRigOn(t, r, strings.NewReplacer("format: single", "format: single, bearer_file: bearer", `url: "${DATABASE_URL}"`, "url_file: database").Replace(apiConfig))
	secret, database := filepath.Join(filepath.Dir(r.file), "bearer"), filepath.Join(filepath.Dir(r.file), "database")
	writeFile(t, secret, "first-secret\n")
	writeFile(t, database, r.env["DATABASE_URL"])
	a.start()
	r.send("t1", "a:1", `{}`)
	until(t, "t1", func() bool { return door.text() == "t1" })

	// The destination first, then the file: the relay is refused until then, and nothing is lost or overtaken.
	door.rotate("second-secret")
	r.send("t2", "a:1", `{}`)
	r.send("t3", "a:1", `{}`)
	a.change("attempts: 1", "attempts: 2") // nobody asked for this yet
	a.change("reconcile: 0s", "reconcile: wrong")
	until(t, "a refusal", func() bool {
		return a.metric(`tailbox_delivery_attempts_total{class="misconfigured",result="failed",sink="api"}`) > "0"
	})
	writeFile(t, database, r.env["DATABASE_URL"]+"&application_name=another") // so does the database's, which waits for a start
	writeFile(t, secret, "second-secret\n")
	until(t, "t2 and t3", func() bool { return door.text() == "t1 t2 t3" })

	// The file first, and a reload, before the destination knows.
	a.change("reconcile: wrong", "reconcile: 0s")
	writeFile(t, secret, "third-secret\n")
	writeFile(t, database, r.env["DATABASE_URL"])
	a.ok("admin", "POST", "/config:reload", nil)
	door.rotate("third-secret")
	r.send("t4", "a:1", `{}`)
	until(t, "t4", func() bool { return door.text() == "t1 t2 t3 t4" })
	got := a.stop()
	if got.code != exitDone || !strings.Contains(got.err, "a file holds another secret by now") || strings.Contains(got.err, "-secret") {
		t.Errorf("%+v", got)
	}
}

// TestRotatedSecretOfAlerts: so is that of a sink that only alerts go through.
func TestRotatedSecretOfAlerts(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	door := &lock{token: "first-secret"}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	r.env["HOOK"] = server.URL
	text := strings.Replace(apiConfig, "sinks: {", `sinks: {hook: {kind: http, url: "${HOOK}", format: single, bearer_file: bearer}, `, 1)
	a := newAPIRigOn(t, r, text+"routes: [{to: api}]\nalerts: {to: [hook], steady: 1s}\n")
	secret := filepath.Join(filepath.Dir(r.file), "bearer")
	writeFile(t, secret, "first-secret\n")
	a.start()
	door.rotate("second-secret")
	r.send("t1", "a:1", `{"x": "bad"}`)
	until(t, "a refusal", func() bool { return door.refusals() > 0 })
	writeFile(t, secret, "second-secret\n")
	until(t, "an alert", func() bool { return door.taken() > 0 })
	if got := a.stop(); got.code != exitDone || !strings.Contains(got.err, "a file holds another secret by now") || strings.Contains(got.err, "-secret") {
		t.Errorf("%+v", got)
	}
}

// TestReloadOfAFile: a sink that has something for itself gives it up before the next one wants it.
func TestReloadOfAFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	hangups := make(chan struct{})
	r.hangups = func() <-chan struct{} { return hangups }
	r.must("init")
	stop := r.relay()
	for i := range 5 {
		r.send(fmt.Sprint("t", i), "a:1", `{}`)
		until(t, "a message", func() bool { return len(r.delivered()) == i+1 })
		hangups <- struct{}{}
	}
	r.send("last", "a:1", `{}`)
	until(t, "the last message", func() bool { return len(r.delivered()) == 6 })
	if got := stop(); got.code != exitDone || strings.Contains(got.err, "misconfigured") || strings.Count(got.err, inForce) < 4 {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(r.delivered(), " "); got != "t0 t1 t2 t3 t4 last" {
		t.Errorf("got %s", got)
	}
}
