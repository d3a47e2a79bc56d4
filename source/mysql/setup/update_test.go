package setup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/operator"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateTables: tables that an earlier version made are refused with what to do, and brought up to date by Init, also by one that goes
// on after another was cut off, and by the printed script: each row keeps what it had, and the tries of a delivery that has none are its
// attempts.
func TestUpdateTables(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
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
	outbox := mysqltest.StoreShape("tailbox", "outbox")
	r := mysqltest.NewBareRig(t, my, mystore.Open, []string{mysqltest.ShapeDDL(&outbox)}, outbox)
	r.Cfg.Start = "now"
	statements := func(script string) {
		for sql := range strings.SplitSeq(script, ";\n") {
			if sql = strings.TrimSpace(sql); sql != "" {
				r.Exec(sql)
			}
		}
	}
	statements(strings.ReplaceAll(string(script), "'outbox'", quote.Text(r.DB+".outbox")))
	rows := func() (text string) {
		for _, table := range []string{"tailbox_checkpoint", "tailbox_parked", "tailbox_request"} {
			columns := r.Text("SELECT GROUP_CONCAT(CONCAT('COALESCE(HEX(`', column_name, '`), ''-'')') ORDER BY ordinal_position) FROM information_schema.columns " +
				"WHERE table_schema = DATABASE() AND table_name = '" + table + "' AND column_name NOT IN ('migration', 'tries', 'tried_at', 'failed_epoch', 'failed_call', 'dead_at', 'dead_class', 'dead_type')")
			text += r.Text("SELECT GROUP_CONCAT(CONCAT_WS('|', " + columns + ") SEPARATOR '\n') FROM " + table)
		}
		return text
	}
	before := rows()
	_, _, listErr := operator.New(r.Cfg).List(r.Ctx, checkpoint.Selection{}, 10, false)
	_, openErr := mystore.Open(r.Ctx, r.Cfg)
	for what, err := range map[string]error{"open a store": openErr, "list": listErr} {
		if !errors.Is(err, checkpoint.ErrOldTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init") {
			t.Errorf("%s on tables of an earlier version: %v", what, err)
		}
	}
	problems := func() (text string) {
		findings, err := Check(r.Ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level == check.Problem {
				text += f.What + " => " + f.Fix + "\n"
			}
		}
		return text
	}
	if p := problems(); !strings.Contains(p, "of an earlier version: they lack "+old.Missing+" => run tailbox init") {
		t.Errorf("check does not say which migrations are missing: %s", p)
	}
	switch by {
	case "script":
		sql, err := Script(r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		statements(sql)
		statements(sql)
	case "init that was cut off":
		next := schema.Migrations()[len(schema.Migrations())-1]
		if old.Name == "0001" {
			next = schema.Migrations()[1]
		}
		r.Exec(schema.Statements(next, "")[0])
	}
	done, err := Init(r.Ctx, r.Cfg)
	if updated := strings.Contains(strings.Join(done, ","), "updated tables tailbox_*: "+old.Missing); err != nil || updated != (by != "script") {
		t.Fatalf("init: %v, %v", done, err)
	}
	if again, err := Init(r.Ctx, r.Cfg); err != nil || len(again) > 0 {
		t.Errorf("second init: %v, %v", again, err)
	}
	mysqltest.Equal(t, "what was there", rows(), before)
	mysqltest.Equal(t, "tries", r.Text("SELECT GROUP_CONCAT(CONCAT(tries, IF(tried_at <=> changed_at, '@', '')) ORDER BY message_id, sink SEPARATOR ' ') FROM tailbox_parked"), old.Tries)
	mysqltest.Equal(t, "recorded", r.Text("SELECT GROUP_CONCAT(DISTINCT migration) FROM tailbox_checkpoint"), fmt.Sprint(len(schema.Migrations())))
	if p := problems(); strings.Contains(p, "tailbox_*") {
		t.Errorf("check afterwards: %s", p)
	}
	mysqltest.Equal(t, "loaded", sourcetest.LoadedText(r.Open()), old.Loaded)
	mysqltest.Equal(t, "due", r.Due("kafka"), "kafka:1 kafka:6")
}
