package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What keeps the next start from reading on, check tells before it.
func TestCheckTellsOfALostSlot(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"delete": rigConfig, "keep": keepConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, config)
			r.must("init")
			if got := r.must("check"); strings.Contains(got, "problem:") {
				t.Errorf("check: %s", got)
			}
			r.dropSlot()
			got := r.command("check")
			want, code := "it takes a new position, and sweeps the tables", exitDone
			if name == "keep" {
				want, code = "run tailbox accept-gap", exitFailed
			}
			if got.code != code || !strings.Contains(got.out, want) || strings.Contains(got.out, "run tailbox init") {
				t.Errorf("check without the slot: %+v", got)
			}
			if got := r.must("status"); strings.Contains(got, "tailbox init") {
				t.Errorf("status names init, which makes no slot now:\n%s", got)
			}
			if got := r.must("init"); !strings.Contains(got, "cannot be read on") {
				t.Errorf("init: %s", got)
			}
		})
	}
}

// The shape may have a column for the status that the table does not have: then nothing tells what was delivered, as the next
// start finds.
func TestCheckTellsWhatNothingJudges(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(keepConfig, "on_delivered: keep", "shape: tailbox, on_delivered: keep", 1))
	r.must("init")
	r.sql("ALTER TABLE outbox DROP COLUMN status, DROP COLUMN delivered_at")
	r.sql("INSERT INTO outbox (type, payload) VALUES ('T', '{}')")
	r.dropSlot()
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, "run tailbox accept-gap") || !strings.Contains(got.out, "nothing shows which messages of public.outbox were delivered") {
		t.Errorf("check without the slot: %+v", got)
	}
	if got := r.command("run"); got.code != exitAct || !strings.Contains(got.err, "nothing tells which rows are pending") {
		t.Errorf("run without the slot: %+v", got)
	}
}

// A relay does not start where deliveries are parked for a sink that is gone, and check says so.
func TestCheckFindsWhatIsParkedForAnotherSink(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	r.must("init")
	r.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_id, message_group, position, type, topic, state, blocks, alone)
		VALUES ('shop', 'gone', 'public.outbox', 'x', 'g', '00000001-0000000000000001-00000001', 'T', 't', 'dead', true, false)`)
	if got := r.command("check"); got.code != exitFailed || !strings.Contains(got.out, `deliveries are parked for sinks ["gone"]`) {
		t.Errorf("check: %+v", got)
	}
}

// To look whether all is there is no start: what crashes wrote down stays.
func TestInitKeepsWhatCrashesWroteDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	r.must("init")
	r.sql("UPDATE tailbox_checkpoint SET unclean_starts = 3, started = '00000001-0000000000000001-00000001*2'")
	if got := r.must("init"); !strings.Contains(got, "the checkpoint is there already") {
		t.Errorf("init: %s", got)
	}
	var unclean int
	var started *string
	if err := r.conn.QueryRow(t.Context(), "SELECT unclean_starts, started FROM tailbox_checkpoint").Scan(&unclean, &started); err != nil {
		t.Fatal(err)
	}
	if unclean != 3 || started == nil {
		t.Errorf("unclean_starts %d, started %v after init, want 3 and what was there", unclean, started)
	}
}

// What scripts read is JSON also where there is nothing to tell.
func TestCheckInJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	r.must("init")
	for _, args := range [][]string{{"check", "-o", "json"}, {"check", "--offline", "-o", "json"}} {
		var findings []struct{ Level, What, Fix string }
		out := r.must(args...)
		if err := json.Unmarshal([]byte(out), &findings); err != nil || strings.TrimSpace(out) == "null" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

// Where the database cannot be reached for the columns that schemas are made of, that is no fault of the configuration.
func TestDebeziumWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	r, _ := debeziumProperties(t, "127.0.0.1:1", "1")
	if got := r.debezium(t.Context(), "run"); got.code != exitFailed || !strings.Contains(got.err, "connect to describe table") {
		t.Errorf("run: %+v, want exit code %d", got, exitFailed)
	}
}
