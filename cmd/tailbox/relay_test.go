package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/test/servers"
)

// A rig is a database with a configuration of its own.
type rig struct {
	t    testing.TB
	conn *pgx.Conn
	// file is the configuration, lines where the sink of kind file writes.
	file, lines string
	env         map[string]string
	// hangups, if not nil, are for the program.
	hangups func() <-chan struct{}
}

const rigConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: "127.0.0.1:0"}
`

func newRig(t testing.TB, text string) *rig {
	t.Helper()
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	url := pg.URL(name)
	// The slots of all databases of a server share one room for names.
	r := &rig{t: t, file: write(t, "tailbox.yaml", text), env: map[string]string{"DATABASE_URL": url, "SLOT": name}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// command runs a command line with the rig's configuration.
func (r *rig) command(args ...string) result {
	r.t.Helper()
	return r.with(r.t.Context(), args...)
}

func (r *rig) with(ctx context.Context, args ...string) result {
	return r.bare(ctx, append(args, "-c", r.file)...)
}

// bare runs a command that no configuration is named for.
func (r *rig) bare(ctx context.Context, args ...string) result {
	var out, err bytes.Buffer
	sh := &cli.Shell{In: strings.NewReader(""), Out: &out, Err: &err, Now: make(chan struct{}), Hangups: r.hangups,
		Env: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	code := run(ctx, sh, args)
	return result{code, out.String(), err.String()}
}

// must runs a command that has to end well, and returns what it printed.
func (r *rig) must(args ...string) string {
	r.t.Helper()
	got := r.command(args...)
	if got.code != exitDone {
		r.t.Fatalf("tailbox %s: exit code %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// relay runs tailbox run until stop is called, which returns what it did.
func (r *rig) relay() (stop func() result) {
	return r.inBackground(func(ctx context.Context) result { return r.with(ctx, "run") })
}

// inBackground runs a command until stop is called, which returns what it did. What it said shows where the test has failed.
func (r *rig) inBackground(command func(ctx context.Context) result) (stop func() result) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan result, 1)
	go func() { ended <- command(ctx) }()
	stop = sync.OnceValue(func() result { cancel(); return <-ended })
	r.t.Cleanup(func() {
		if got := stop(); r.t.Failed() {
			r.t.Logf("exit code %d, stderr:\n%s", got.code, got.err)
		}
	})
	return stop
}

// sql runs a statement.
func (r *rig) sql(text string, args ...any) {
	r.t.Helper()
	if _, err := r.conn.Exec(r.t.Context(), text, args...); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
}

// delivered reads the types that the sink of kind file has.
func (r *rig) delivered() []string {
	r.t.Helper()
	data, err := os.ReadFile(r.lines)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var types []string
	for line := range strings.Lines(string(data)) {
		var m struct{ Type string }
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			r.t.Fatal(err)
		}
		types = append(types, m.Type)
	}
	return types
}

// until polls for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(4 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited for %s in vain", what)
		case <-tick.C:
		}
	}
}

func TestInitRunSend(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "run tailbox init") {
		t.Errorf("run before init: exit code %d, stderr %q", got.code, got.err)
	}
	if sql := r.must("init", "--print"); !strings.Contains(sql, "CREATE PUBLICATION") {
		t.Errorf("init --print: %s", sql)
	}
	if got := r.must("init"); !strings.Contains(got, "and the first checkpoint: ") {
		t.Errorf("init: %s", got)
	}
	if got := r.must("init"); !strings.Contains(got, "already") {
		t.Errorf("init again: %s", got)
	}
	id := strings.TrimSpace(r.must("send", "--type", "first", "--topic", "order", "--key", "1", `{"a": 1}`))
	var typ string
	if err := r.conn.QueryRow(t.Context(), "SELECT type FROM outbox WHERE id = $1", id).Scan(&typ); err != nil || typ != "first" {
		t.Errorf("row %s: type %q, %v", id, typ, err)
	}
	stop := r.relay()
	until(t, "the first message", func() bool { return len(r.delivered()) == 1 })
	r.must("send", "--type", "second", "--group", "order:1", `{"a": 2}`)
	until(t, "the second message", func() bool { return len(r.delivered()) == 2 })
	if got := r.must("init"); !strings.Contains(got, "the checkpoint is there already") {
		t.Errorf("init beside a relay: %s", got)
	}
	if got := stop(); got.code != exitDone || !strings.Contains(got.err, "msg=stopped") {
		t.Errorf("run: exit code %d, stderr %s", got.code, got.err)
	}
	if got := r.delivered(); fmt.Sprint(got) != "[first second]" {
		t.Errorf("delivered %v", got)
	}
	until(t, "an empty outbox", func() bool {
		var n int
		if err := r.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// endpoint is an HTTP sink's other end. It refuses bodies that hold "bad", and answers 503 while it is down.
type endpoint struct {
	mu   sync.Mutex
	down bool
	// kind: it takes even what holds "bad".
	kind  bool
	types []string
}

// forgive has it take everything, and refuse ends that.
func (e *endpoint) forgive() { e.mu.Lock(); defer e.mu.Unlock(); e.kind = true }
func (e *endpoint) refuse()  { e.mu.Lock(); defer e.mu.Unlock(); e.kind = false }

func (e *endpoint) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil || e.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.Contains(string(body), "bad") && !e.kind:
		w.WriteHeader(http.StatusBadRequest)
	default:
		e.types = append(e.types, req.Header.Get("tailbox-type"))
	}
}

func (e *endpoint) got() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.types, " ")
}

const endpointConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
admin: {listen: off}
`

// newEndpointRig is a rig after init whose sink is an endpoint.
func newEndpointRig(t testing.TB) (*rig, *endpoint) {
	t.Helper()
	e := &endpoint{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r := newRig(t, endpointConfig)
	r.env["API_URL"] = server.URL
	r.must("init")
	return r, e
}

func (r *rig) send(typ, group, payload string) string {
	r.t.Helper()
	return strings.TrimSpace(r.must("send", "--type", typ, "--group", group, payload))
}

// parkedStates counts parked deliveries by state.
func (r *rig) parkedStates() map[string]int {
	r.t.Helper()
	rows, err := r.conn.Query(r.t.Context(), "SELECT state, count(*) FROM tailbox_parked GROUP BY 1")
	if err != nil {
		r.t.Fatal(err)
	}
	counts := map[string]int{}
	var state string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error { counts[state] = n; return nil }); err != nil {
		r.t.Fatal(err)
	}
	return counts
}

// TestDeadLetters goes through the life of dead letters, with a relay that runs and without one.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"running": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := newEndpointRig(t)
			stop := r.relay()
			bad := r.send("a1", "a:1", `{"x": "bad"}`)
			r.send("a2", "a:1", `{}`)
			r.send("b1", "b:1", `{}`)
			until(t, "a dead letter and one that waits", func() bool {
				states := r.parkedStates()
				return states["dead"] == 1 && states["waiting"] == 1 && e.got() == "b1"
			})
			if !running {
				stop()
			}
			list := r.must("dead", "list")
			for _, want := range []string{bad, "a:1", "a1", "permanent", "400"} {
				if !strings.Contains(list, want) {
					t.Errorf("dead list: no %q in\n%s", want, list)
				}
			}
			if strings.Contains(list, "waiting") || !strings.Contains(r.must("dead", "list", "--state", "waiting"), "a2") {
				t.Errorf("dead list by state:\n%s", list)
			}
			if show := r.must("dead", "show", bad); !strings.Contains(show, `{"x": "bad"}`) {
				t.Errorf("dead show:\n%s", show)
			}
			var views []struct{ ID, Type, Sink string }
			if err := json.Unmarshal([]byte(r.must("dead", "list", "-o", "json")), &views); err != nil || len(views) != 1 || views[0].ID != bad {
				t.Errorf("dead list -o json: %+v, %v", views, err)
			}
			if dry := r.must("dead", "replay", bad, "--dry-run"); !strings.Contains(dry, bad) || r.parkedStates()["dead"] != 1 {
				t.Errorf("dry run:\n%s", dry)
			}
			if got := r.command("dead", "replay", "nothing"); got.code != exitFailed || !strings.Contains(got.err, "nothing matches") {
				t.Errorf("replay of nothing: %+v", got)
			}
			if out := r.must("dead", "edit", bad, "--payload", `{"x": "good"}`, "--type", "a1b", "--why", "test"); !strings.Contains(out, "1 delivery") {
				t.Errorf("edit: %s", out)
			}
			if !running {
				stop = r.relay()
			}
			until(t, "the group", func() bool { return e.got() == "b1 a1b a2" && len(r.parkedStates()) == 0 })
			if got := stop(); got.code != exitDone {
				t.Errorf("run: %+v", got)
			}
			var reason, by string
			if err := r.conn.QueryRow(t.Context(), `SELECT reason, "by" FROM tailbox_request WHERE verb = 'edit'`).Scan(&reason, &by); err != nil || reason != "test" || by == "" {
				t.Errorf("audit: %q by %q, %v", reason, by, err)
			}
		})
	}
}

func TestDropReplayAndGroups(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	r.relay()
	dropped := r.send("a1", "a:1", `"bad"`)
	r.send("a2", "a:1", `{}`)
	r.send("b1", "b:1", `"bad"`)
	r.send("b2", "b:1", `{}`)
	until(t, "two dead letters", func() bool { return r.parkedStates()["dead"] == 2 && r.parkedStates()["waiting"] == 2 })
	groups := r.must("group", "list")
	for _, want := range []string{"a:1", "b:1", "api"} {
		if !strings.Contains(groups, want) {
			t.Errorf("group list: no %q in\n%s", want, groups)
		}
	}
	if show := r.must("group", "show", "a:1"); !strings.Contains(show, " a1 ") || !strings.Contains(show, " a2 ") || strings.Contains(show, " b1 ") {
		t.Errorf("group show:\n%s", show)
	}
	if out := r.must("dead", "drop", dropped, "--why", "test"); !strings.Contains(out, "dropped 1 delivery") {
		t.Errorf("drop: %s", out)
	}
	until(t, "a2", func() bool { return e.got() == "a2" })
	if out := r.must("group", "skip", "b:1"); !strings.Contains(out, "passed 1 dead delivery") {
		t.Errorf("skip: %s", out)
	}
	until(t, "b2", func() bool { return e.got() == "a2 b2" })
	// The group has passed it: it is replayed only where the operator allows it.
	if got := r.command("dead", "replay", "--all"); got.code != exitFailed || !strings.Contains(got.err, "--allow-reorder") {
		t.Errorf("replay of what was passed: %+v", got)
	}
	if out := r.must("group", "hold", "c:1", "--sink", "api"); !strings.Contains(out, "holding 1 group") {
		t.Errorf("hold: %s", out)
	}
	r.send("c1", "c:1", `{}`)
	until(t, "c1 to be parked", func() bool { return r.parkedStates()["waiting"] == 1 })
	r.must("group", "resume", "c:1", "--sink", "api")
	until(t, "c1", func() bool { return e.got() == "a2 b2 c1" })
	// Without a sink, the group is held at every sink.
	r.must("group", "hold", "c:1")
	r.send("c2", "c:1", `{}`)
	until(t, "c2 to be parked", func() bool { return r.parkedStates()["waiting"] == 1 })
	r.must("group", "resume", "c:1")
	until(t, "c2", func() bool { return e.got() == "a2 b2 c1 c2" })
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	if out := r.must("sink", "pause", "api", "--why", "test"); !strings.Contains(out, "paused 1 sink") {
		t.Errorf("pause: %s", out)
	}
	r.relay()
	r.send("a1", "a:1", `{}`)
	until(t, "a1 to be parked", func() bool { return r.parkedStates()["waiting"] == 1 })
	if out := r.must("sink", "list"); !strings.Contains(out, "paused") {
		t.Errorf("sink list: %s", out)
	}
	if out := r.must("sink", "resume", "api"); !strings.Contains(out, "resumed 1 sink") {
		t.Errorf("resume: %s", out)
	}
	until(t, "a1", func() bool { return e.got() == "a1" })
}
