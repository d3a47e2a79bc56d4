package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExitCodes: 3 says that an operator has to act, 1 that a restart may help, 2 that the command line or the configuration is wrong; and the
// systemd unit restarts the relay for ever, but not where that changes nothing.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	start := func(code int, want string, change func(r *rig)) {
		t.Helper()
		r := newRig(t, keepConfig)
		r.must("init")
		change(r)
		if got := r.command("run"); got.code != code || !strings.Contains(got.err, want) {
			t.Errorf("exit code %d, stderr %q, want %d and %q", got.code, got.err, code, want)
		}
	}
	start(exitAct, "accept-gap", func(r *rig) {
		r.must("send", "--type", "lost", "--group", "a:1", "{}")
		r.dropSlot()
	})
	start(exitAct, "run tailbox init", func(r *rig) { r.sql("DROP TABLE tailbox_parked") })
	start(exitAct, "permission denied", func(r *rig) {
		role := r.env["SLOT"]
		r.sql("CREATE ROLE " + role + " LOGIN REPLICATION PASSWORD 'p'")
		t.Cleanup(func() {
			if _, err := r.conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
				t.Error(err)
			}
		})
		r.sql("GRANT SELECT ON outbox TO " + role)
		r.env["DATABASE_URL"] = strings.Replace(r.env["DATABASE_URL"], "//postgres@", "//"+role+":p@", 1)
	})
	start(exitFailed, "does not exist", func(r *rig) { r.sql("DROP TABLE outbox") })
	start(exitUsage, "on_delivered", func(r *rig) {
		writeFile(t, r.file, strings.Replace(keepConfig, "on_delivered: keep", "on_delivered: eat", 1))
	})

	r := newRig(t, keepConfig)
	if got := r.command("run", "--fast"); got.code != exitUsage {
		t.Errorf("a flag that there is not: %+v", got)
	}
	r.env["DATABASE_URL"] = "postgres://127.0.0.1:1/none"
	if got := r.command("init"); got.code != exitFailed {
		t.Errorf("init without a server: %+v", got)
	}

	unit, err := os.ReadFile("../../deploy/systemd/tailbox.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(unit), "\n")
	for _, want := range []string{"Restart=always", "StartLimitIntervalSec=0", "RestartPreventExitStatus=2 3"} {
		if !slices.Contains(lines, want) {
			t.Errorf("the systemd unit lacks %s", want)
		}
	}
}
