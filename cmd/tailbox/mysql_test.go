package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

const mysqlConfig = `
pipeline: shop
source: {kind: "${KIND}", url: "${DATABASE_URL}", reconcile: 0s, tables: [{shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}, hook: {kind: http, url: "${HOOK}", format: single}}
routes: [{match: {type: hooked}, to: [hook]}, {to: [out]}]
admin: {listen: off}
`

// TestMySQL goes through all commands with MySQL and MariaDB as the source.
func TestMySQL(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testMySQL(t, kind)
		})
	}
}

func testMySQL(t *testing.T, kind string) {
	server := servers.SharedMySQL(t, kind)
	name := server.NewDatabase(t)
	var accepting atomic.Bool
	var body atomic.Value
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || !accepting.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body.Store(string(text))
	}))
	defer hook.Close()
	r := &rig{t: t, file: write(t, "tailbox.yaml", mysqlConfig), env: map[string]string{"DATABASE_URL": server.SocketURL(name), "KIND": kind, "HOOK": hook.URL}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")

	if out := r.must("init", "--print"); !strings.Contains(out, "CREATE TABLE") {
		t.Errorf("init --print: %s", out)
	}
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, "run tailbox init") {
		t.Errorf("check before init: %+v", got)
	}
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "run tailbox init") {
		t.Errorf("run before init: %+v", got)
	}
	if out := r.must("init"); !strings.Contains(out, "created the first checkpoint: ") {
		t.Errorf("init: %s", out)
	}
	r.must("check")
	stop := r.relay()
	r.must("send", "--type", "first", "--group", "g", `{"n": 1}`)
	if err := server.Exec(t.Context(), name, `INSERT INTO outbox (type, message_group, payload) VALUES ('hooked', 'g', '{"n":2}')`); err != nil {
		t.Fatal(err)
	}
	until(t, "the first message", func() bool { return len(r.delivered()) == 1 })
	until(t, "the dead letter", func() bool { return strings.Contains(r.must("dead", "list"), "hooked") })
	r.mustListBare()
	if out := r.must("status"); !strings.Contains(out, kind+" ") || !strings.Contains(out, "running ") {
		t.Errorf("status: %s", out)
	}
	if out := r.must("group", "list"); !strings.Contains(out, "hook") {
		t.Errorf("group list: %s", out)
	}
	accepting.Store(true)
	r.must("dead", "replay", "--all")
	until(t, "the replayed message", func() bool { return body.Load() != nil })
	if text, _ := body.Load().(string); text != `{"n":2}` {
		t.Errorf("the hook got %s", text)
	}
	until(t, "nothing parked", func() bool {
		return !strings.Contains(r.must("dead", "list", "--state", "dead,retrying,waiting"), "hooked")
	})
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	// While nothing runs, requests are carried out by the command, and the next start goes on where this one ended.
	r.must("sink", "pause", "out")
	r.must("send", "--type", "second", "--group", "g", "{}")
	stop = r.relay()
	r.must("sink", "resume", "out")
	until(t, "the second message", func() bool { return strings.Join(r.delivered(), " ") == "first second" })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	conn, err := server.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	left, err := conn.Execute("SELECT COUNT(*) FROM outbox WHERE status = 'delivered'")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := left.GetInt(0, 0); err != nil || n != 3 {
		t.Errorf("delivered rows: %d, %v", n, err)
	}
	if got := r.command("accept-gap", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "there is no gap") {
		t.Errorf("accept-gap: %+v", got)
	}
	r.must("uninstall", "--print")
	r.must("uninstall")
}
