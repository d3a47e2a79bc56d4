package main

import (
	"strings"
	"testing"
)

// TestRefusedFirstRun: a first run that is refused leaves no slot, for which the server would keep its log without end, and no publication. After
// the fix it starts as if it had not been refused.
func TestRefusedFirstRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, keepConfig)
	made := func() (slots, publications int) {
		err := r.conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()),
			(SELECT count(*) FROM pg_publication)`).Scan(&slots, &publications)
		if err != nil {
			t.Fatal(err)
		}
		return slots, publications
	}
	if got := r.command("run"); got.code == exitDone {
		t.Errorf("run without tables: %+v", got)
	}
	if slots, publications := made(); slots != 0 || publications != 0 {
		t.Errorf("run without tables left %d slots and %d publications", slots, publications)
	}
	r.sql(r.must("init", "--print"))
	r.must("send", "--type", "old", "--group", "a:1", "{}")
	for range 2 {
		if got := r.command("run"); got.code == exitDone || !strings.Contains(got.err, "source.start") {
			t.Errorf("run with rows that nothing judges: %+v", got)
		}
		if slots, _ := made(); slots != 0 {
			t.Errorf("the refused run left %d slots", slots)
		}
	}
	writeFile(t, r.file, strings.Replace(keepConfig, "reconcile", "start: pending, reconcile", 1))
	stop := r.relay()
	until(t, "the old row", func() bool { return len(r.delivered()) == 1 })
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	if slots, _ := made(); slots != 1 {
		t.Errorf("%d slots", slots)
	}
}
