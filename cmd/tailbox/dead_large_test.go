package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
)

// TestDeadListOfLargeLetters: a list shows no payloads, so their size does not bound it.
func TestDeadListOfLargeLetters(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	const letters = 24
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, payload)
		SELECT 'shop', 'api', 'public.outbox', 'g', '00000001-0000000000000001-000000' || to_char(n, 'FM00'), 'large-' || n, 'dead', true, false, 'T', 'x',
		convert_to(repeat('x', 11500000), 'UTF8') FROM generate_series(1, $1) n`, letters)
	for _, line := range [][]string{{"dead", "list"}, {"dead", "replay", "--all", "--dry-run"}, {"group", "show", "g"}, {"dead", "drop", "--all", "--dry-run", "--limit", "24"}} {
		if got := r.must(line...); strings.Count(got, "large-") != letters || strings.Contains(got, "and more") {
			t.Errorf("%v lists %d of %d:\n%s", line, strings.Count(got, "large-"), letters, got)
		}
	}
	if got := r.command("dead", "list", "-o", "json"); got.err != "" || len(views(t, got.out)) != letters {
		t.Errorf("dead list -o json: %d of %d, stderr %q", len(views(t, got.out)), letters, got.err)
	}
	if got := r.must("dead", "show", "large-1"); !strings.Contains(got, strings.Repeat("x", 11500000)) {
		t.Errorf("dead show has %d bytes", len(got))
	}
	ids := make([]string, letters)
	for i, v := range views(t, r.must("dead", "list", "-o", "json")) {
		ids[i] = v.ID
	}
	if got := r.command(append([]string{"dead", "show"}, ids...)...); got.code != exitFailed || !strings.Contains(got.err, "name fewer IDs") {
		t.Errorf("dead show of too much: exit code %d, %s", got.code, got.err)
	}
}

// TestListInJSONSaysThatItIsCut: on stderr, so that what reads the list can.
func TestListInJSONSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic)
		SELECT 'shop', 'api', 'public.outbox', 'g' || n, '00000001-0000000000000001-00000' || n, n, 'dead', true, false, 'T', 'x' FROM generate_series(101, 250) n`)
	for _, c := range []struct {
		line, want string
		n          int
	}{
		{"dead list", "and more: raise --limit\n", 100}, {"dead list --limit 150", "", 150}, {"dead list --limit 0", "", 150},
		{"group list", "perhaps more: raise --limit\n", 100}, {"group list --limit 0", "", 150},
		{"group show g101", "", 1},
	} {
		got := r.command(append(strings.Fields(c.line), "-o", "json")...)
		if n := len(views(t, got.out)); got.code != exitDone || got.err != c.want || n != c.n {
			t.Errorf("%s: %d, stderr %q, exit code %d, want %d, %q", c.line, n, got.err, got.code, c.n, c.want)
		}
	}
	if got := r.must("dead", "replay", "--all", "--dry-run", "--limit", "120"); strings.Count(got, "\n") != 121 {
		t.Errorf("a dry run of 120 lists %d lines", strings.Count(got, "\n"))
	}
}

func views(t *testing.T, text string) (views []struct{ ID string }) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &views); err != nil {
		t.Fatal(err)
	}
	return views
}

// mustListBare: what is parked is listed without payloads, which are there where it is shown.
func (r *rig) mustListBare() {
	r.t.Helper()
	sh := &cli.Shell{Env: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	p, err := pipeline.Load(r.t.Context(), sh, r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	db := p.Database(newLogger(r.t.Output(), p.Config.Log, new(slog.LevelVar)), nil)
	sel := checkpoint.Selection{States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying, checkpoint.StateWaiting}}
	listed, _, err := db.Operator().Parked(r.t.Context(), sel, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	whole, _, err := db.Operator().Whole(r.t.Context(), sel)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(listed) == 0 || len(listed) != len(whole) {
		r.t.Fatalf("%d are listed, and %d shown", len(listed), len(whole))
	}
	for i := range listed {
		if m := listed[i].Message; m.Payload != nil || len(whole[i].Message.Payload) == 0 || m.ID != whole[i].Message.ID || m.Type != whole[i].Message.Type {
			r.t.Errorf("listed %+v, shown %+v", m, whole[i].Message)
		}
	}
}
