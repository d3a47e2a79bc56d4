package main

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/pgserver"
	"github.com/tailbox/tailbox/test/servers"
)

func TestDemoOnAServerThatRuns(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := tailbox(t.Context(), "", "demo", "--url", pg.URL("postgres"))
	if r.code != exitDone {
		t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	for _, want := range []string{"the ledger has 30 of 30, shipping 24 of 24", "dead", "its new id is", "All of it was delivered, in order"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	noDemoDatabases(t, pg)
}

func TestDemoIsRemovedWhenItIsStopped(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "16")
	ctx, cancel := context.WithCancel(t.Context())
	out := &trigger{text: "4. Parking", fire: cancel}
	if code := run(ctx, out.shell(), []string{"demo", "--url", pg.URL("postgres")}); code != exitFailed || !strings.Contains(out.seen.String(), "stopped before its end") {
		t.Errorf("exit code %d\n%s", code, out.seen.String())
	}
	noDemoDatabases(t, pg)
}

// TestDemoStays: with --stay the console of the demo can be opened, and the demo is removed when it is stopped.
func TestDemoStays(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "18")
	ctx, cancel := context.WithCancel(t.Context())
	out := &trigger{text: "Ctrl-C ends", fire: func() {}}
	out.fire = func() {
		defer cancel()
		console := regexp.MustCompile(`open (http://\S+/) and log in with the token (\S+)`).FindStringSubmatch(out.seen.String())
		if console == nil {
			t.Errorf("no address of the console in\n%s", out.seen.String())
			return
		}
		ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, console[1]+"api/v1/deliveries", nil)
		if err != nil {
			t.Error(err)
			return
		}
		ask.Header.Set("Authorization", "Bearer "+console[2])
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("status: %s", answer.Status)
		}
	}
	if code := run(ctx, out.shell(), []string{"demo", "--stay", "--url", pg.URL("postgres")}); code != exitDone {
		t.Errorf("exit code %d\n%s", code, out.seen.String())
	}
	noDemoDatabases(t, pg)
}

// trigger fires when a text was written.
type trigger struct {
	text string
	fire func()
	seen strings.Builder
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.seen.Write(p)
	if strings.Contains(w.seen.String(), w.text) {
		w.fire()
	}
	return n, err
}

// shell writes all to the trigger.
func (w *trigger) shell() *cli.Shell {
	return &cli.Shell{In: strings.NewReader(""), Out: w, Err: w, Now: make(chan struct{}), Env: func(string) (string, bool) { return "", false }}
}

// noDemoDatabases wants every demo to have removed its database and slot.
func noDemoDatabases(t *testing.T, pg *servers.PG) {
	t.Helper()
	if err := pg.Exec(t.Context(), "postgres", `DO $$ BEGIN
		IF EXISTS (SELECT FROM pg_database WHERE datname LIKE 'tailbox_demo_%') THEN RAISE 'a demo left its database'; END IF;
		IF EXISTS (SELECT FROM pg_replication_slots WHERE database LIKE 'tailbox_demo_%') THEN RAISE 'a demo left its slot'; END IF;
	END $$`); err != nil {
		t.Error(err)
	}
}

// TestDemoByItself runs the program as a user would.
func TestDemoByItself(t *testing.T) {
	t.Parallel()
	if _, err := pgserver.Find(t.Context(), func(text string) { t.Log(text) }); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	p := startProcess(t, nil, "demo")
	if code := p.ends(); code != exitDone || !strings.Contains(p.printed(), "All of it was delivered, in order") {
		t.Errorf("exit code %d\n%s", code, p.printed())
	}
}
