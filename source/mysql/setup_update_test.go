package mysql

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateTables: tables that an earlier version made are refused with what to do, and brought up to date by Init, also by one that goes
// on after another was cut off, and by the printed script: each row keeps what it had, and the tries of a delivery that has none are its
// attempts.
func TestUpdateTables(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		for _, old := range sourcetest.OldTables() {
			for _, by := range []string{"init", "init that was cut off", "script"} {
				t.Run(old.Name+"/"+by, func(t *testing.T) { updateTables(t, my, old, by) })
			}
		}
	})
}

func updateTables(t *testing.T, my *servers.My, old sourcetest.Old, by string) {
	script, err := os.ReadFile("testdata/tables_" + old.Name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	outbox := storeShape("tailbox", "outbox")
	r := bareRig(t, my, Open, []string{shapeDDL(&outbox)}, outbox)
	r.cfg.Start = "now"
	statements := func(script string) {
		for sql := range strings.SplitSeq(script, ";\n") {
			if sql = strings.TrimSpace(sql); sql != "" {
				r.exec(sql)
			}
		}
	}
	statements(strings.ReplaceAll(string(script), "'outbox'", quoteLiteral(r.db+".outbox")))
	rows := func() (text string) {
		for _, table := range []string{"tailbox_checkpoint", "tailbox_parked", "tailbox_request"} {
			columns := r.text("SELECT GROUP_CONCAT(CONCAT('COALESCE(HEX(`', column_name, '`), ''-'')') ORDER BY ordinal_position) FROM information_schema.columns " +
				"WHERE table_schema = DATABASE() AND table_name = '" + table + "' AND column_name NOT IN ('migration', 'tries', 'tried_at', 'failed_epoch', 'failed_call')")
			text += r.text("SELECT GROUP_CONCAT(CONCAT_WS('|', " + columns + ") SEPARATOR '\n') FROM " + table)
		}
		return text
	}
	before := rows()
	_, _, listErr := Operator(r.cfg).List(r.ctx, checkpoint.Selection{}, 10, false)
	_, openErr := Open(r.ctx, r.cfg)
	for what, err := range map[string]error{"open a store": openErr, "list": listErr} {
		if !errors.Is(err, checkpoint.ErrOldTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init") {
			t.Errorf("%s on tables of an earlier version: %v", what, err)
		}
	}
	problems := func() (text string) {
		findings, err := Check(r.ctx, r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level == store.Problem {
				text += f.What + " => " + f.Cure + "\n"
			}
		}
		return text
	}
	if p := problems(); !strings.Contains(p, "of an earlier version: they lack "+sourcetest.OldMissing+" => run tailbox init") {
		t.Errorf("check does not say which migrations are missing: %s", p)
	}
	switch by {
	case "script":
		sql, err := SetupScript(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		statements(sql)
		statements(sql)
	case "init that was cut off":
		next := migrations()[len(migrations())-1]
		if old.Name == "0001" {
			next = migrations()[1]
		}
		r.exec(statementsIn(next, "")[0])
	}
	done, err := Init(r.ctx, r.cfg)
	if updated := strings.Contains(strings.Join(done, ","), "updated tables tailbox_*: "+sourcetest.OldMissing); err != nil || updated != (by != "script") {
		t.Fatalf("init: %v, %v", done, err)
	}
	if again, err := Init(r.ctx, r.cfg); err != nil || len(again) > 0 {
		t.Errorf("second init: %v, %v", again, err)
	}
	equal(t, "what was there", rows(), before)
	equal(t, "tries", r.text("SELECT GROUP_CONCAT(CONCAT(tries, IF(tried_at <=> changed_at, '@', '')) ORDER BY message_id, sink SEPARATOR ' ') FROM tailbox_parked"), old.Tries)
	equal(t, "recorded", r.text("SELECT GROUP_CONCAT(DISTINCT migration) FROM tailbox_checkpoint"), fmt.Sprint(len(migrations())))
	if p := problems(); strings.Contains(p, "tailbox_*") {
		t.Errorf("check afterwards: %s", p)
	}
	equal(t, "loaded", sourcetest.LoadedText(r.open()), old.Loaded)
	equal(t, "due", r.due("kafka"), "kafka:1 kafka:6")
}
