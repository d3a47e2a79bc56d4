package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestUnreadable: a place in the log at which the relay stops, since rows are missing there, is no gap that anybody would find. An operator who gives
// it up gets on from the log's end; of what can be swept nothing is lost.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := servers.MySQL(t, kind)
			name := server.NewDatabase(t)
			r := &rig{t: t, env: map[string]string{"DATABASE_URL": server.SocketURL(name)}, file: write(t, "tailbox.yaml", fmt.Sprintf(`
pipeline: shop
source: {kind: %s, url: "${DATABASE_URL}", reconcile: 0s, start: now, tables: [{name: kept, shape: debezium, on_delivered: keep}, {name: swept, shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`, kind))}
			r.lines = filepath.Join(filepath.Dir(r.file), "lines.json")
			r.must("init")
			stop := r.relay()
			r.must("send", "--table", "swept", "--type", "first", "--group", "g", "{}")
			until(t, "the first message", func() bool { return strings.Join(r.delivered(), " ") == "first" })
			if got := r.command("accept-gap", "--unreadable", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "a relay is running") {
				t.Errorf("beside a relay: %+v", got)
			}
			stop()
			conn, err := server.Connect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, sql := range []string{"SET SESSION binlog_format = 'STATEMENT'",
				"INSERT INTO kept (id, aggregatetype, aggregateid, type, payload) VALUES ('6f1c2d3e-0000-4000-8000-000000000001', 'a', 'b', 'unseen', '{}')"} {
				if _, err := conn.Execute(sql); err != nil {
					t.Fatal(err)
				}
			}
			r.must("send", "--table", "swept", "--type", "second", "--group", "g", "{}")
			run := func() result {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				return r.with(ctx, "run")
			}
			for range 2 {
				if got := run(); got.code != exitAct || !strings.Contains(got.err, "accept-gap --unreadable") {
					t.Fatalf("run: %+v", got)
				}
			}
			if got := r.command("accept-gap", "--why", "test"); got.code != exitFailed || !strings.Contains(got.err, "--unreadable") {
				t.Errorf("without a gap: %+v", got)
			}
			r.must("accept-gap", "--unreadable", "--why", "the unseen row was sent by hand")
			r.relay()
			until(t, "the second message", func() bool { return strings.Join(r.delivered(), " ") == "first second" })
			r.must("send", "--table", "kept", "--type", "third", "--group", "a:b", "{}")
			until(t, "the third message", func() bool { return strings.Join(r.delivered(), " ") == "first second third" })
		})
	}
}
