package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// remote runs a command that asks the relay, in a role.
func (a *apiRig) remote(role string, args ...string) result {
	a.t.Helper()
	return a.bare(a.t.Context(), append(args, "--server", "http://"+a.env["ADMIN"], "--token-file", filepath.Join(filepath.Dir(a.file), role))...)
}

// passing is what changes from one question to the next: ages, and how long until something.
var passing = regexp.MustCompile(`\d+(\.\d+)?(ms|s|m)\b|"(age_seconds|oldest_[a-z]+_seconds|log_end|lag_bytes|retained_bytes)": [^\n]*|log ends at \S+|\d+ (B|KiB)`)

// alike compares what a command printed by the database and by the relay.
func (a *apiRig) alike(args ...string) {
	a.t.Helper()
	var want, got string
	until(a.t, fmt.Sprintf("%v to print the same by the database and by the relay", args), func() bool { // a checkpoint may be saved between the two
		here, there := a.command(args...), a.remote("auditor", args...)
		if here.code != there.code || here.err != there.err {
			a.t.Fatalf("%v: by the database %d %s, by the relay %d %s", args, here.code, here.err, there.code, there.err)
		}
		want, got = here.out, there.out
		var x, y any
		if json.Unmarshal([]byte(want), &x) == nil && json.Unmarshal([]byte(got), &y) == nil { // the order of keys does not matter
			want, got = indented(x), indented(y)
		}
		want, got = passing.ReplaceAllString(want, "…"), passing.ReplaceAllString(got, "…")
		return strings.Join(strings.Fields(want), " ") == strings.Join(strings.Fields(got), " ")
	})
	if want == "" {
		a.t.Errorf("%v prints nothing", args)
	}
}

func indented(x any) string {
	text, _ := json.MarshalIndent(x, "", " ")
	return string(text)
}

// What a command shows by the relay's API is what it shows by the database.
func TestRemote(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	bad := a.send("order.placed", "order:1", `{"x": "bad"}`)
	a.send("order.paid", "order:1", `{"order": 1}`)
	other := a.send("order.placed", "order:2", `{"x": "bad", "binary": "é"}`)
	until(t, "dead letters and one that waits", func() bool {
		states := a.parkedStates()
		return states["dead"] == 2 && states["waiting"] == 1
	})
	a.must("group", "hold", "order:7", "--why", "TICKET-1")
	for _, args := range [][]string{
		{"status"}, {"status", "-o", "json"}, {"sink", "list"}, {"sink", "list", "-o", "json"}, {"config", "show"},
		{"dead", "list"}, {"dead", "list", "-o", "wide"}, {"dead", "list", "-o", "json"}, {"dead", "list", "-o", "csv"}, {"dead", "list", "--newest"}, {"dead", "list", "--since", "1h"},
		{"dead", "list", "--limit", "1"}, {"dead", "list", "--state", "dead,waiting", "--type", "order.*", "--sink", "api", "--group", "order:1"}, {"dead", "list", "--reason", "perm*"},
		{"dead", "list", "--search", "order:1", "--topic", "*", "--tenant", `\`}, {"dead", "summary"}, {"dead", "summary", "--by", "sink,type", "-o", "json"},
		{"dead", "summary", "--state", "waiting"}, {"group", "list", "--limit", "1"},
		{"dead", "show", bad, other}, {"dead", "show", "-o", "json", bad}, {"dead", "replay", "--all", "--dry-run"},
		{"group", "list"}, {"group", "list", "-o", "json"}, {"group", "show", "order:1"}, {"audit"}, {"audit", "-o", "json"}, {"audit", "1"}, {"audit", "--limit", "1", "-o", "csv"},
	} {
		a.alike(args...)
	}
	for _, args := range [][]string{{"dead", "show", "no-such-id"}, {"dead", "list", "--sink", "nobody"}, {"audit", "99"}, {"group", "hold", "g", "--sink", "nobody"}, {"dead", "drop", bad}} {
		here, there := a.command(args...), a.remote("operator", args...)
		if here.code != there.code || here.err != there.err || here.code == exitDone {
			t.Errorf("%v: by the database %d %s, by the relay %d %s", args, here.code, here.err, there.code, there.err)
		}
	}
}

// Verbs are carried out in the name of the token, and forbidden ones change nothing.
func TestRemoteVerbs(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	bad := a.send("order.placed", "order:1", `{"x": "bad"}`)
	dropped := a.send("order.placed", "order:2", `{"x": "bad"}`)
	passed := a.send("order.placed", "order:3", `{"x": "bad"}`)
	a.send("order.paid", "order:3", `{}`)
	until(t, "three dead letters", func() bool { s := a.parkedStates(); return s["dead"] == 3 && s["waiting"] == 1 })
	if got := a.remote("auditor", "dead", "replay", "--all"); got.code == exitDone || !strings.Contains(got.err, "operator") {
		t.Errorf("an auditor replays: %+v", got)
	}
	do := func(want string, args ...string) {
		t.Helper()
		if got := a.remote("operator", args...); got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
	do("changed, and replaying 1 delivery", "dead", "edit", bad, "--payload", `{"x": "good"}`, "--why", "TICKET-1")
	do("dropped 1 delivery", "dead", "drop", dropped, "--why", "TICKET-2")
	do("passed 1 dead delivery", "group", "skip", "order:3", "--why", "TICKET-3")
	do("holding 1 group", "group", "hold", "order:9", "--sink", "api")
	do("resumed 1 group", "group", "resume", "order:9", "--sink", "api")
	do("paused 1 sink", "sink", "pause", "api", "--why", "TICKET-4")
	do("resumed 1 sink", "sink", "resume", "api")
	a.e.forgive()
	do("replaying 1 delivery", "dead", "replay", passed, "--allow-reorder")
	do("asked: request", "group", "hold", "order:10", "--no-wait")
	until(t, "all to be delivered", func() bool { return len(a.parkedStates()) == 0 })
	type asked struct{ Verb, By, Why string }
	var list []asked
	if err := json.Unmarshal([]byte(a.must("audit", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, want := range []asked{{"edit", "olga", "TICKET-1"}, {"drop", "olga", "TICKET-2"}, {"skip", "olga", "TICKET-3"}, {"pause", "olga", "TICKET-4"}} {
		if !slices.Contains(list, want) {
			t.Errorf("the audit has no %+v: %+v", want, list)
		}
	}
	// The environment names the relay; a configuration on the command line counts before it.
	a.env["TAILBOX_SERVER"], a.env["TAILBOX_TOKEN_FILE"] = "http://"+a.env["ADMIN"]+"/api/v1/", filepath.Join(filepath.Dir(a.file), "viewer")
	if got := a.bare(t.Context(), "dead", "list"); got.code != exitDone || got.out != "none\n" {
		t.Errorf("by the environment: %+v", got)
	}
	if got := a.bare(t.Context(), "config", "show"); got.code == exitDone || !strings.Contains(got.err, "auditor") {
		t.Errorf("a viewer reads the configuration: %+v", got)
	}
	a.must("config", "show")
}

// Whatever stands at the address, the error says what to do, and never the token.
func TestRemoteErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	dir := t.TempDir()
	token, empty := filepath.Join(dir, "token"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{token: "a-token-that-nobody-may-read\n", empty: "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome")) }))
	defer page.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(page.URL+"/login", http.StatusFound))
	defer elsewhere.Close()
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"status": 401, "detail": "the token is not known"}`))
	}))
	defer refusing.Close()
	for _, x := range []struct {
		server, token, want string
		code                int
	}{
		{page.URL, token, "what answers there is no relay", exitFailed},
		{elsewhere.URL, token, `it points to "` + page.URL + `/login"`, exitFailed},
		{old.URL, token, "it answered 404 Not Found", exitFailed},
		{secure.URL, token, "certificate", exitFailed},
		{refusing.URL, token, "the token is not known: the token is that of " + token, exitFailed},
		{"http://" + servers.FreeAddr(t), token, "connection refused", exitFailed},
		{"relay.example:8480", token, "write a URL with http:// or https://", exitUsage},
		{"http://ana:secret@127.0.0.1", token, "without a user", exitUsage},
		{page.URL, "", "needs a token", exitUsage},
		{page.URL, empty, "must hold one token", exitUsage},
		{page.URL, filepath.Join(dir, "none"), "no such file", exitUsage},
	} {
		args := []string{"dead", "list", "--server", x.server}
		if x.token != "" {
			args = append(args, "--token-file", x.token)
		}
		got := r.bare(t.Context(), args...)
		if got.code != x.code || !strings.Contains(got.err, x.want) || strings.Contains(got.err, "nobody-may-read") || strings.Contains(got.err, "secret") {
			t.Errorf("%s: exit code %d, %s; want %d, %q", x.server, got.code, got.err, x.code, x.want)
		}
	}
	if got := r.command("dead", "list", "--server", page.URL); got.code != exitUsage || !strings.Contains(got.err, "leave out one of the two") {
		t.Errorf("-c and --server: %+v", got)
	}
}
