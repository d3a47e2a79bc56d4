package postgres

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateTables: tables that an earlier version made are refused with what to do, and brought up to date by Init and by the printed
// script: each delivery keeps what it had, and its tries are its attempts.
func TestUpdateTables(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile("testdata/tables_without_tries.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range servers.Versions(t) {
		for _, by := range []string{"init", "script"} {
			t.Run(version+"/"+by, func(t *testing.T) {
				t.Parallel()
				r := newBareRig(t, servers.Shared(t, version), shape("tailbox", "outbox"))
				r.cfg.Pipeline, r.cfg.Schema, r.cfg.Start = "p", "public", "now"
				r.exec(string(old))
				const was = `SELECT string_agg((to_jsonb(p) - 'tries' - 'tried_at' - 'failed_epoch' - 'failed_call')::text, E'\n' ORDER BY message_id) FROM tailbox_parked p`
				before := r.text(was)
				for what, err := range map[string]error{
					"open a store": func() error { _, err := OpenStore(r.ctx, r.cfg); return err }(),
					"list":         func() error { _, _, err := ListParked(r.ctx, r.cfg, checkpoint.Selection{}, 10, false); return err }(),
				} {
					if !errors.Is(err, checkpoint.ErrOldTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init") {
						t.Errorf("%s on tables of an earlier version: %v", what, err)
					}
				}
				equal(t, "check says so", strings.Contains(levels(r.check(), Problem), "of an earlier version and lack columns => run tailbox init"), true)
				if by == "script" {
					sql, err := SetupSQL(r.cfg)
					if err != nil {
						t.Fatal(err)
					}
					r.exec(sql)
				}
				done, err := Init(r.ctx, r.cfg)
				if err != nil || by == "init" && !strings.Contains(strings.Join(done, ","), "updated tables tailbox_*") || by == "script" && len(done) > 0 {
					t.Fatalf("init: %v, %v", done, err)
				}
				if again, err := Init(r.ctx, r.cfg); err != nil || len(again) > 0 {
					t.Errorf("second init: %v, %v", again, err)
				}
				equal(t, "what was there", r.text(was), before)
				equal(t, "tries", r.text(`SELECT string_agg(tries || CASE WHEN tried_at = changed_at THEN '@' ELSE '' END, ' ' ORDER BY message_id) FROM tailbox_parked`),
					"4@ 0 15@ 2@ 3@ 0")
				equal(t, "indexes", r.text(`SELECT count(*)::text FROM pg_indexes WHERE tablename = 'tailbox_parked'`), "7")
				equal(t, "problems", levels(r.check(), Problem), "")
				r.open()
				equal(t, "due", r.due("kafka"), "kafka:1 kafka:6")
			})
		}
	}
}
