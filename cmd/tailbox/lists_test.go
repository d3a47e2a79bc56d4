package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// onScreen runs a command on a terminal of so many characters.
func (r *rig) onScreen(width int, args ...string) result {
	r.t.Helper()
	var out, err bytes.Buffer
	sh := &cli.Shell{In: strings.NewReader(""), Out: &out, Err: &err, Now: make(chan struct{}), Width: width,
		Env: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	return result{run(r.t.Context(), sh, append(args, "-c", r.file)), out.String(), err.String()}
}

// TestDeadListFormats: the list fits the terminal, and shows all of it where that is asked for; JSON is as it was.
func TestDeadListFormats(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, error_class, last_error, attempts,
			parked_at)
		SELECT 'shop', 'api', 'public.outbox', 'order:' || n, '00000001-0000000000000001-0000000' || n, '5f0c7e0a-0000-4000-8000-00000000000' || n, 'dead', true, false,
			'com.example.shop.order.placed', '=order', 'permanent', 'answered 400 Bad Request: ' || repeat('x', 100), 3, now() - (n || ' hours')::interval - interval '5 minutes'
		FROM generate_series(1, 4) n`)
	const id = "5f0c7e0a-0000-4000-8000-000000000001"
	for width, columns := range map[int]string{
		300: "ID SINK GROUP TYPE STATE ATTEMPTS NEXT AGE CLASS ERROR",
		120: "ID SINK GROUP TYPE STATE AGE CLASS ERROR",
		80:  "ID SINK GROUP STATE AGE CLASS",
		60:  "ID SINK STATE AGE CLASS",
	} {
		got := r.onScreen(width, "dead", "list")
		lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
		if heading := strings.Join(strings.Fields(lines[0]), " "); heading != columns || len(lines) != 5 {
			t.Errorf("%d: columns %s, want %s:\n%s", width, heading, columns, got.out)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > max(width, 70) {
				t.Errorf("%d: %d characters:\n%s", width, utf8.RuneCountInString(line), line)
			}
		}
		if !strings.Contains(got.out, id) {
			t.Errorf("%d: the id is cut:\n%s", width, got.out)
		}
	}
	if got := r.must("dead", "list"); !strings.Contains(got, " 1h ") || !strings.Contains(got, " 4h ") {
		t.Errorf("no age:\n%s", got)
	}
	wide := r.onScreen(60, "dead", "list", "-o", "wide").out
	for _, want := range []string{"TOPIC", "public.outbox", strings.Repeat("x", 100), "com.example.shop.order.placed"} {
		if !strings.Contains(wide, want) {
			t.Errorf("-o wide: no %q:\n%s", want, wide)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(r.must("dead", "list", "-o", "csv"))).ReadAll()
	if err != nil || len(rows) != 5 || rows[1][slices.Index(rows[0], "id")] != id || rows[1][slices.Index(rows[0], "topic")] != "'=order" {
		t.Errorf("-o csv: %v, %v", rows, err)
	}
	var views []map[string]any
	if err := json.Unmarshal([]byte(r.must("dead", "list", "-o", "json")), &views); err != nil || len(views) != 4 || views[0]["id"] != id || views[0]["topic"] != "=order" {
		t.Errorf("-o json: %v, %v", views, err)
	}

	summary := r.onScreen(80, "dead", "summary")
	if lines := strings.Split(summary.out, "\n"); len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != "COUNT CLASS TYPE SINK FIRST LAST EXAMPLE" ||
		!strings.HasPrefix(lines[1], "4 ") || !strings.Contains(lines[1], "com.example.shop.order.placed") {
		t.Errorf("dead summary: %+v", summary)
	}
	if got := r.must("dead", "summary", "--by", "sink"); !strings.Contains(got, "answered 400") || strings.Contains(got, "CLASS") {
		t.Errorf("dead summary --by sink:\n%s", got)
	}
	for _, args := range [][]string{{"--by", "table"}, {"--state", "gone"}, {"x"}} {
		if got := r.command(append([]string{"dead", "summary"}, args...)...); got.code != exitUsage || !strings.Contains(got.err, args[len(args)-1]) {
			t.Errorf("dead summary %v: %+v", args, got)
		}
	}
	for since, want := range map[string]int{"90m": 1, "3h": 2, "0.5d": 4, "1m": 0, "2020-01-01": 4, "2020-01-01T00:00:00Z": 4} {
		if got := r.must("dead", "list", "--since", since); strings.Count(got, "5f0c7e0a") != want {
			t.Errorf("--since %s: want %d:\n%s", since, want, got)
		}
	}
	if got := r.command("dead", "list", "--since", "1d", "--limit", "3"); strings.Count(got.out, "5f0c7e0a") != 3 || !strings.Contains(got.out, "and more: raise --limit") {
		t.Errorf("--since with a limit: %+v", got)
	}
}

// TestAudit: who asked for what, why, and what came of it; what a request holds is shown to who asks for that one.
func TestAudit(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	if got := r.must("audit"); got != "nobody has asked for anything\n" {
		t.Errorf("an empty audit: %q", got)
	}
	r.must("group", "hold", "g:1", "--why", "TICKET-7")
	r.must("sink", "pause", "api", "--why", "=maintenance")
	if got := r.command("dead", "replay", "--all"); got.code != exitFailed {
		t.Errorf("replay of nothing: %+v", got)
	}
	list := r.must("audit")
	lines := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "pause") || !strings.Contains(lines[1], "1 changed") || !strings.Contains(lines[2], "TICKET-7") || !strings.Contains(lines[2], "postgres") {
		t.Errorf("audit:\n%s", list)
	}
	for line := range strings.Lines(r.onScreen(70, "audit").out) {
		if utf8.RuneCountInString(line) > 71 {
			t.Errorf("a line of %d on a screen of 70: %s", utf8.RuneCountInString(line), line)
		}
	}
	var views []map[string]any
	if err := json.Unmarshal([]byte(r.must("audit", "-o", "json")), &views); err != nil || len(views) != 2 || views[1]["why"] != "TICKET-7" || views[1]["verb"] != "hold" {
		t.Errorf("audit -o json: %v, %v", views, err)
	}
	rows, err := csv.NewReader(strings.NewReader(r.must("audit", "-o", "csv", "--limit", "1"))).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][4] != "'=maintenance" {
		t.Errorf("audit -o csv: %v, %v", rows, err)
	}
	id := fmt.Sprint(views[1]["id"])
	if got := r.must("audit", id); !strings.Contains(got, "verb") || !strings.Contains(got, `"groups": [`) || !strings.Contains(got, `"g:1"`) {
		t.Errorf("audit %s:\n%s", id, got)
	}
	if got := r.command("audit", "999999"); got.code != exitFailed || !strings.Contains(got.err, "the pipeline has no request with this id: see tailbox audit") {
		t.Errorf("audit of nothing: %+v", got)
	}
}

// A selection that somebody wrote by hand with a misspelt name changes nothing: without the name it would select more.
func TestMisspeltSelection(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic)
		VALUES ('shop', 'api', 'public.outbox', 'g', '00000001-0000000000000001-00000001', 'm', 'dead', true, false, 't', 't')`)
	r.sql(`INSERT INTO tailbox_request (pipeline, verb, selection, reason) VALUES ('shop', 'drop', '{"sink": "api", "typ": "other"}', 'TICKET-1')`)
	r.must("group", "hold", "else")
	if got := r.must("audit", "1"); !strings.Contains(got, `unknown field "typ"`) || !strings.Contains(got, "type, topic") {
		t.Errorf("audit:\n%s", got)
	}
	if got := r.must("dead", "list"); !strings.Contains(got, "api") {
		t.Errorf("the delivery is gone:\n%s", got)
	}
}
