package mysql

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateTables: tables that an earlier version made are refused with what to do, and brought up to date by Init, also by one that goes
// on after another was cut off, and by the printed script: each delivery keeps what it had, and its tries are its attempts.
func TestUpdateTables(t *testing.T) {
	old, err := os.ReadFile("testdata/tables_without_tries.sql")
	if err != nil {
		t.Fatal(err)
	}
	onBoth(t, func(t *testing.T, my *servers.My) {
		for _, by := range []string{"init", "init that was cut off", "script"} {
			t.Run(by, func(t *testing.T) {
				outbox := storeShape("tailbox", "outbox")
				r := newBareRig(t, my, []string{shapeDDL(&outbox)}, outbox)
				r.cfg.Start = "now"
				statements := func(script string) {
					for sql := range strings.SplitSeq(script, ";\n") {
						if sql = strings.TrimSpace(sql); sql != "" {
							r.exec(sql)
						}
					}
				}
				statements(strings.ReplaceAll(string(old), "'outbox'", quoteLiteral(r.db+".outbox")))
				const was = `SELECT GROUP_CONCAT(CONCAT_WS('|', message_id, source_table, sink, message_group, position, state, blocks, alone, attempts, next_attempt_at,
					last_error, error_class, replays, row_settled, type, topic, payload, parked_at, changed_at) ORDER BY message_id SEPARATOR '\n') FROM tailbox_parked`
				before := r.text(was)
				_, _, listErr := ListParked(r.ctx, r.cfg, checkpoint.Selection{}, 10, false)
				_, openErr := OpenStore(r.ctx, r.cfg)
				for what, err := range map[string]error{"open a store": openErr, "list": listErr} {
					if !errors.Is(err, checkpoint.ErrOldTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init") {
						t.Errorf("%s on tables of an earlier version: %v", what, err)
					}
				}
				findings, err := Check(r.ctx, r.cfg)
				if err != nil || countProblems(findings) == 0 {
					t.Errorf("check on tables of an earlier version: %v, %v", findings, err)
				}
				switch by {
				case "script":
					sql, err := SetupSQL(r.cfg)
					if err != nil {
						t.Fatal(err)
					}
					statements(sql)
					statements(sql)
				case "init that was cut off":
					r.exec(tableNames("").expand(addTries))
				}
				done, err := Init(r.ctx, r.cfg)
				if updated := strings.Contains(strings.Join(done, ","), "updated table tailbox_parked"); err != nil || updated != (by != "script") {
					t.Fatalf("init: %v, %v", done, err)
				}
				if again, err := Init(r.ctx, r.cfg); err != nil || len(again) > 0 {
					t.Errorf("second init: %v, %v", again, err)
				}
				equal(t, "what was there", r.text(was), before)
				equal(t, "tries", r.text("SELECT GROUP_CONCAT(CONCAT(tries, IF(tried_at <=> changed_at, '@', '')) ORDER BY message_id SEPARATOR ' ') FROM tailbox_parked"),
					"4@ 0 15@ 2@ 3@ 0")
				findings, err = Check(r.ctx, r.cfg)
				if err != nil || countProblems(findings) > 0 {
					t.Errorf("check afterwards: %v, %v", findings, err)
				}
				r.open()
				equal(t, "due", r.due("kafka"), "kafka:1 kafka:6")
			})
		}
	})
}
