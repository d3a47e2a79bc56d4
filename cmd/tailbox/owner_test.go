package main

import (
	"os"
	"strings"
	"testing"
)

// A slot that somebody else made, and does not read at the moment, keeps what it holds, however often the relay is started.
func TestSlotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(keepConfig, "reconcile: 0s", "reconcile: 0s, start: now", 1))
	r.sql(r.must("init", "--print"))
	r.sql("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.env["SLOT"])
	for _, kind := range []string{"first", "second"} {
		r.must("send", "--type", kind, "--group", "a:1", "{}")
	}
	for _, command := range []string{"check", "init", "run", "run", "check"} {
		got := r.command(command)
		if said := got.out + got.err; got.code != exitCode(command) || !strings.Contains(said, "was not made by this pipeline") ||
			!strings.Contains(said, "source.take_over") || !strings.Contains(said, r.env["SLOT"]) {
			t.Errorf("%s: %+v", command, got)
		}
	}
	// Whoever says that its reader has stopped for good gets all that it holds.
	configure := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(strings.Replace(keepConfig, "reconcile: 0s", "reconcile: 0s, start: now, take_over: true", 1))
	r.must("check")
	stop := r.relay()
	r.must("send", "--type", "third", "--group", "a:1", "{}")
	until(t, "what the slot held", func() bool { return len(r.delivered()) >= 3 })
	stop()
	if got := strings.Join(r.delivered(), " "); got != "first second third" {
		t.Errorf("delivered %s", got)
	}
	// From then on it is the pipeline's own.
	configure(keepConfig)
	r.must("check")
}

// A lock_url to another database stops the relay: trying again would not help.
func TestLockURLElsewhere(t *testing.T) {
	t.Parallel()
	r, other := newRig(t, rigConfig), newRig(t, rigConfig)
	r.must("init")
	other.must("init")
	r.env["LOCK"] = other.env["DATABASE_URL"]
	if err := os.WriteFile(r.file, []byte(strings.Replace(rigConfig, "reconcile: 0s", `reconcile: 0s, lock_url: "${LOCK}"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "init", "run", "uninstall"} {
		if got := r.command(command); got.code != exitCode(command) || !strings.Contains(got.out+got.err, "source.lock_url leads to database") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// exitCode is that of a command which finds what an operator has to fix. It is what check is there for.
func exitCode(command string) int {
	if command == "check" {
		return exitFailed
	}
	return exitAct
}
