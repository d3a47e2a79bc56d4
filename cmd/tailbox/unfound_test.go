package main

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestUnfoundColumn: a column that the configuration names must be there, also one that only the relay writes.
func TestUnfoundColumn(t *testing.T) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			config := "pipeline: shop\nsource:\n  kind: " + kind + "\n  url: \"${DATABASE_URL}\"\n  tables: [{name: outbox, shape: tailbox, columns: {KEY: \"???\"}, on_delivered: delete}]\n" +
				"sinks: {out: {kind: stdout}}\nadmin: {listen: \"off\"}\n"
			r, exec := newRigOn(t, kind, config)
			exec("CREATE TABLE outbox (id int PRIMARY KEY, type varchar(40) NOT NULL, payload varchar(40))")
			for _, key := range []string{"status", "delivered_at", "last_error", "attempts", "seq", "group"} {
				value := "???"
				if key == "group" {
					value = "[???]"
				}
				r.file = write(t, "tailbox.yaml", strings.Replace(strings.Replace(config, "KEY", key, 1), `"???"`, strings.Replace(value, "???", `"???"`, 1), 1))
				for _, verb := range []string{"check", "init"} {
					if got := r.command(verb); got.code == exitDone || !strings.Contains(got.out+got.err, "no column ???") {
						t.Errorf("%s with %s: %+v", verb, key, got)
					}
				}
			}
		})
	}
}
