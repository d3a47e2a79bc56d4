package main

import (
	"fmt"
	"strings"
	"testing"
)

// park stores a delivery to sink a or b that blocks its group.
func (r *rig) park(id, sink, group, state string) {
	r.t.Helper()
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_id, message_group, position, type, topic, state, blocks, alone, attempts, tries, next_attempt_at)
		SELECT 'shop', $1, 'public.outbox', $2, $3, '00000001-0000000000000001-' || lpad(count(*)::text, 8, '0'), 'api.x', 't', $4, true, false, 1, 3,
			CASE WHEN $4 = 'retrying' THEN now() + interval '1 hour' END FROM tailbox_parked`, sink, id, group, state)
}

// TestRetryingHeads: a group skip, and a drop that names an ID, are about what is retried if nothing is dead, and say so.
func TestRetryingHeads(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	writeFile(t, r.file, twoSinksConfig)
	for _, p := range [][4]string{{"one", "a", "g:1", "retrying"}, {"two", "a", "g:1", "waiting"}, {"three", "a", "g:2", "retrying"}, {"three", "b", "g:2", "retrying"},
		{"four", "a", "g:3", "dead"}, {"four", "b", "g:3", "retrying"}, {"five", "a", "g:4", "retrying"}, {"six", "a", "g:5", "waiting"}} {
		r.park(p[0], p[1], p[2], p[3])
	}
	state := func(id string) string {
		return r.ask(`SELECT coalesce(string_agg(sink || ' ' || state || CASE WHEN blocks THEN '!' ELSE '' END || CASE WHEN next_attempt_at IS NULL THEN '' ELSE '@' END, ', ' ORDER BY sink), '')
			FROM tailbox_parked WHERE message_id = $1`, id)
	}
	for _, c := range []struct {
		line, says  string
		code        int
		id, becomes string
	}{
		{"group skip g:1 --why gone", "passed 1 delivery that was retried, and is a dead letter now\n", exitDone, "one", "a dead"},
		{"group skip g:1", "nothing matched", exitFailed, "two", "a waiting!@"},
		{"group skip g:2", "the first delivery of group g:2 is retried at several sinks, a, b: choose one with --sink", exitUsage, "three", "a retrying!@, b retrying!@"},
		{"group skip g:2 --sink b", "passed 1 delivery that was retried, and is a dead letter now\n", exitDone, "three", "a retrying!@, b dead"},
		{"group skip g:3 g:2", "passed 1 delivery that was retried, and is a dead letter now\npassed 1 dead delivery\n", exitDone, "four", "a dead, b retrying!@"},
		{"dead drop five --dry-run", "retrying", exitDone, "five", "a retrying!@"},
		{"dead drop five --state dead --why x", "nothing matches", exitFailed, "five", "a retrying!@"},
		{"dead drop five --why x", "dropped 1 delivery that was retried\n", exitDone, "five", ""},
		{"dead drop four --why x", "dropped 1 delivery\n", exitDone, "four", "a dropped, b retrying!@"},
		{"dead drop six --why x", "nothing matches", exitFailed, "six", "a waiting!"},
		{"dead show six -o json", `"tries": 3`, exitDone, "six", "a waiting!"},
	} {
		got := r.command(strings.Fields(c.line)...)
		if text := got.out + got.err; got.code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %+v", c.line, got)
		}
		if is := state(c.id); is != c.becomes && !(c.becomes == "" && strings.Contains(is, "dropped")) {
			t.Errorf("%s: %s is %s, want %s", c.line, c.id, is, c.becomes)
		}
	}
	if audit := r.ask("SELECT count(*)::text FROM tailbox_request WHERE verb = 'skip' AND done_at IS NOT NULL AND reason = 'gone'"); audit != "1" {
		t.Error(fmt.Sprint("requests on record: ", audit))
	}
}

// TestSkipRetryingWhileRunning: a relay goes on with a group whose first delivery, which would be tried in an hour, is skipped.
func TestSkipRetryingWhileRunning(t *testing.T) {
	t.Parallel()
	r, e := newEndpointRig(t)
	writeFile(t, r.file, endpointConfig+"routes: [{to: [api], retry: {initial: 1h, max: 1h, jitter: none}}]\n")
	setDown := func(down bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.down = down
	}
	setDown(true)
	stop := r.relay()
	first := r.send("a1", "a:1", `{}`)
	until(t, "a delivery that is retried", func() bool { return r.parkedStates()["retrying"] == 1 })
	setDown(false)
	r.send("a2", "a:1", `{}`)
	until(t, "one that waits behind it", func() bool { return r.parkedStates()["waiting"] == 1 })
	if got := r.must("group", "skip", "a:1"); !strings.Contains(got, "passed 1 delivery that was retried") {
		t.Errorf("group skip: %s", got)
	}
	until(t, "the next of the group", func() bool { return e.got() == "a2" })
	if list := r.must("dead", "list"); !strings.Contains(list, first) || !strings.Contains(list, "503") {
		t.Errorf("dead list:\n%s", list)
	}
	r.send("a3", "a:1", `{}`)
	until(t, "what comes later", func() bool { return e.got() == "a2 a3" })
	r.must("dead", "replay", first, "--allow-reorder")
	until(t, "the replay of what was skipped", func() bool { return e.got() == "a2 a3 a1" })
	stop()
}
