package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/servers"
)

const pollConfig = `
pipeline: shop
source: {kind: "${KIND}", url: "${DATABASE_URL}", read: poll, reconcile: 1s, tables: [{shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}, away: {kind: http, url: "http://127.0.0.1:1/", format: single}}
routes: [{match: {type: away}, to: [away], on_exhausted: skip}, {to: [out]}]
admin: {listen: off}
`

// TestPoll goes through the commands with sources that poll.
func TestPoll(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testPoll(t, kind)
		})
	}
}

// TestPollInitWaits: a transaction that has drawn a number, and lasts longer than the server waits for a silent session, holds init up
// and does not make it fail.
func TestPollInitWaits(t *testing.T) {
	t.Parallel()
	url, exec := pollDatabase(t, "postgres")
	r := &rig{t: t, file: write(t, "tailbox.yaml", pollConfig), env: map[string]string{"DATABASE_URL": url, "KIND": "postgres"}}
	for sql := range strings.SplitSeq(r.must("init", "--print"), ";\n") {
		if strings.TrimSpace(sql) != "" {
			exec(sql)
		}
	}
	exec("BEGIN", "INSERT INTO outbox (type, payload) VALUES ('t', '{}')")
	done := make(chan result, 1)
	go func() { done <- r.command("init") }()
	select { // longer than the session's idle timeout of 10 s
	case got := <-done:
		t.Errorf("init did not wait: %+v", got)
	case <-time.After(11 * time.Second):
		exec("COMMIT")
		if got := <-done; got.code != exitDone || !strings.Contains(got.out, "created the first checkpoint: 1") {
			t.Errorf("init: %+v", got)
		}
	}
}

// pollDatabase is an empty database: its address, and a function that runs statements in one session.
func pollDatabase(t *testing.T, kind string) (url string, exec func(statements ...string)) {
	t.Helper()
	if kind != "postgres" {
		server := servers.SharedMySQL(t, kind)
		name := server.NewDatabase(t)
		return server.SocketURL(name), func(statements ...string) {
			t.Helper()
			if err := server.Exec(t.Context(), name, statements...); err != nil {
				t.Fatal(err)
			}
		}
	}
	versions := servers.Versions(t)
	server := servers.Shared(t, versions[0])
	name := server.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), server.SocketURL(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return server.SocketURL(name), func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
}

func testPoll(t *testing.T, kind string) {
	url, exec := pollDatabase(t, kind)
	r := &rig{t: t, file: write(t, "tailbox.yaml", pollConfig), env: map[string]string{"DATABASE_URL": url, "KIND": kind}}
	r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
	script := r.must("init", "--print")
	if strings.Contains(script, "PUBLICATION") || !strings.Contains(script, "source.read is poll") || !strings.Contains(strings.ToLower(script), "unique") {
		t.Errorf("init --print: %s", script)
	}
	if out := r.must("init"); strings.Contains(out, "slot") || strings.Contains(out, "publication") || !strings.Contains(out, "created the first checkpoint: 0") {
		t.Errorf("init: %s", out)
	}
	if got := r.command("check"); !strings.Contains(got.err, "1 problem\n") || !strings.Contains(got.out, "sink away") {
		t.Errorf("check: %+v", got)
	}
	row := func(typ, more, value string) string {
		return "INSERT INTO outbox (type, message_group, payload" + more + ") VALUES ('" + typ + "', 'g', '{}'" + value + ")"
	}
	exec("BEGIN", row("undone", "", ""), "ROLLBACK")
	stop := r.relay()
	r.must("send", "--type", "first", "--group", "g", `{"n": 1}`)
	exec(row("second", "", ""))
	until(t, "two messages", func() bool { return strings.Join(r.delivered(), " ") == "first second" })
	// Below what was read: late, and not lost.
	exec(row("late", ", seq", ", 1"))
	until(t, "the late message", func() bool { return strings.Join(r.delivered(), " ") == "first second late" })
	exec(row("away", "", ""), row("third", "", ""))
	until(t, "the message after one whose sink is away", func() bool { return strings.HasSuffix(strings.Join(r.delivered(), " "), "third") })
	until(t, "the parked message", func() bool {
		return strings.Contains(r.must("dead", "list", "--state", "dead,retrying,waiting"), "away")
	})
	until(t, "the checkpoint", func() bool {
		out := r.must("status")
		return strings.Contains(out, "polling") && strings.Contains(out, "is at 5") && strings.Contains(out, "running ")
	})
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	exec(row("fourth", "", ""))
	stop = r.relay()
	until(t, "the message of the next start", func() bool { return strings.HasSuffix(strings.Join(r.delivered(), " "), "third fourth") })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	if got := r.command("accept-gap", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "there is no gap") {
		t.Errorf("accept-gap: %+v", got)
	}
	if out := r.must("uninstall", "--print"); strings.Contains(out, "slot") {
		t.Errorf("uninstall --print: %s", out)
	}
	r.must("uninstall", "--force")
}
