package main

import (
	"strings"
	"testing"
)

const twoSinksConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks: {a: {kind: http, url: "${API_URL}"}, b: {kind: discard}}
routes: [{match: {type: "api.*"}, to: [a]}, {match: {type: "both.*"}, to: [a, b]}]
admin: {listen: off}
`

// TestSinkFlag: the sink ” can be named, and a sink that is not there cannot, unless something is left for it.
func TestSinkFlag(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	writeFile(t, r.file, twoSinksConfig)
	stop := r.relay()
	r.send("api.x", "g:1", `"bad"`)
	lost := r.send("nowhere", "g:2", `{}`)
	until(t, "two dead letters", func() bool { return r.parkedStates()["dead"] == 2 })
	stop()
	for _, spelling := range []string{"", "''"} {
		if got := r.must("dead", "list", "--sink", spelling); !strings.Contains(got, lost) || strings.Contains(got, "api.x") {
			t.Errorf("dead list --sink %q:\n%s", spelling, got)
		}
	}
	if got := r.must("group", "list", "--sink", ""); !strings.Contains(got, "g:2") || strings.Contains(got, "g:1") {
		t.Errorf("group list --sink '':\n%s", got)
	}
	if got := r.must("dead", "drop", "--sink", "", "--why", "test"); !strings.Contains(got, "dropped 1 delivery\n") || r.parkedStates()["dead"] != 1 {
		t.Errorf("dead drop --sink '': %s, left %v", got, r.parkedStates())
	}
	r.mustList(t, lost)
	for _, line := range [][]string{{"dead", "list"}, {"dead", "show", "x"}, {"dead", "drop", "--why", "x"}, {"dead", "replay"}, {"dead", "edit", "x", "--type", "y"},
		{"group", "list"}, {"group", "show", "g"}, {"group", "hold", "g"}, {"group", "resume", "g"}, {"group", "skip", "g"}} {
		if got := r.command(append(line, "--sink", "zz")...); got.code != exitUsage || !strings.Contains(got.err, `there is no sink "zz": the configuration has a, b`) {
			t.Errorf("%v --sink zz: %+v", line, got)
		}
	}
	if got := r.command("group", "hold", "g", "--sink", ""); got.code != exitUsage || !strings.Contains(got.err, "leave --sink out") {
		t.Errorf("group hold --sink '': %+v", got)
	}
	if got := r.command("dead", "show", lost, "neither"); got.code != exitFailed || !strings.Contains(got.err, "neither") {
		t.Errorf("dead show of something that is not there: %+v", got)
	}
	// What is parked for a sink that left the configuration can be dropped, as the relay says that it must.
	text := strings.ReplaceAll(twoSinksConfig, "[a, b]", "[b]")
	text = strings.ReplaceAll(text, "to: [a]", "to: [b]")
	writeFile(t, r.file, strings.Replace(text, "a: {kind: http, url: \"${API_URL}\"}, ", "", 1))
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "tailbox dead drop --sink NAME") {
		t.Errorf("run without the sink: %+v", got)
	}
	if got := r.must("dead", "drop", "--sink", "a", "--all", "--why", "test"); !strings.Contains(got, "dropped 1 delivery\n") {
		t.Errorf("dead drop of a sink that left: %s", got)
	}
	if e.got() != "" {
		t.Errorf("delivered %s", e.got())
	}
}

// TestResumeTellsTheTruth: a group is resumed only where it was held, and where it does not wait any more.
func TestResumeTellsTheTruth(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	writeFile(t, r.file, twoSinksConfig)
	if got := r.must("group", "resume", "g:1"); got != "nothing was held\n" {
		t.Errorf("resume of what is not held: %q", got)
	}
	r.must("group", "hold", "g:1", "g:2")
	got := r.command("group", "resume", "g:1", "--sink", "a")
	if got.code != exitFailed || strings.Contains(got.out, "resumed") || !strings.Contains(got.err, "1 group still waits: it is held at every sink: resume it without --sink") {
		t.Errorf("resume at one sink of what is held at all: %+v", got)
	}
	if list := r.must("group", "list"); strings.Count(list, "held by an operator") != 2 {
		t.Errorf("group list:\n%s", list)
	}
	if out := r.must("group", "resume", "g:1", "g:2", "g:3"); out != "resumed 2 groups\n" {
		t.Errorf("resume: %q", out)
	}
	r.must("group", "hold", "g:1", "--sink", "b")
	if out := r.must("group", "resume", "g:1", "--sink", "b"); out != "resumed 1 group\n" {
		t.Errorf("resume at a sink: %q", out)
	}
}

// mustList: a list that is cut says so, a list that is not does not, and what is about nothing fails with a hint.
func (r *rig) mustList(t *testing.T, dropped string) {
	t.Helper()
	if got := r.must("dead", "list", "--limit", "1"); strings.Contains(got, "and more") {
		t.Errorf("dead list of all there is:\n%s", got)
	}
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic)
		SELECT pipeline, sink, source_table, message_group, position, 'another', state, blocks, alone, type, topic FROM tailbox_parked WHERE state = 'dead'`)
	if got := r.must("dead", "list", "--limit", "1"); !strings.Contains(got, "and more") {
		t.Errorf("dead list of one of two:\n%s", got)
	}
	r.sql(`DELETE FROM tailbox_parked WHERE message_id = 'another'`)
	for _, verb := range []string{"skip", "replay"} {
		if got := r.command("group", verb, "nobody"); got.code != exitFailed || !strings.Contains(got.err, "nothing matched: see tailbox group list") {
			t.Errorf("group %s of nothing: %+v", verb, got)
		}
	}
	if got := r.command("dead", "replay", dropped); got.code != exitFailed {
		t.Errorf("dead replay of what was dropped: %+v", got)
	}
}

// An edit that the database refuses ends with what the database says; the relay, which has carried it out, goes on.
func TestRefusedEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	r.must("init")
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_id, message_group, position, type, topic, state, blocks, alone)
		VALUES ('shop', 'out', 'public.outbox', 'x', 'g', '00000001-0000000000000001-00000001', 'T', 't', 'dead', true, false)`)
	r.sql(`ALTER TABLE tailbox_parked ADD CONSTRAINT short CHECK (length(type) < 5)`)
	edit := []string{"dead", "edit", "x", "--type", "LongerThanThat"}
	refused := func(when string) {
		t.Helper()
		if got := r.command(edit...); got.code != exitFailed || !strings.Contains(got.err, `violates check constraint "short"`) || !strings.Contains(got.err, "nothing was changed") {
			t.Errorf("%s: %+v", when, got)
		}
	}
	refused("without a relay")
	stop := r.relay()
	send := func(delivered int) {
		t.Helper()
		r.must("send", "--type", "Sent", "--group", "a:1", "{}")
		until(t, "what was sent", func() bool { return len(r.delivered()) == delivered })
	}
	send(1)
	refused("with a relay")
	send(2)
	r.must("dead", "edit", "x", "--type", "Well")
	until(t, "the edited message", func() bool { return len(r.delivered()) == 3 })
	stop()
}
