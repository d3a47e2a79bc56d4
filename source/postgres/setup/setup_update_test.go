package setup_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// TestUpdateTables: tables that an earlier version made are refused with what to do, and brought up to date by Init and by the printed
// script: each row keeps what it had, and the tries of a delivery that has none are its attempts.
func TestUpdateTables(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		for _, old := range sourcetest.OldTables() {
			for _, by := range []string{"init", "script"} {
				t.Run(version+"/"+old.Name+"/"+by, func(t *testing.T) {
					t.Parallel()
					updateTables(t, version, old, by)
				})
			}
		}
	}
}

func updateTables(t *testing.T, version string, old sourcetest.Old, by string) {
	script, err := os.ReadFile("testdata/tables_" + old.Name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	r := pgtest.NewBareRig(t, servers.Shared(t, version), pgtest.Shape("tailbox", "outbox"))
	r.Cfg.Pipeline, r.Cfg.Schema, r.Cfg.Start = "p", "public", "now"
	r.Exec(string(script))
	const was = `SELECT string_agg((to_jsonb(t) - ARRAY['migration', 'tries', 'tried_at', 'failed_epoch', 'failed_call'])::text, E'\n' ORDER BY t::text) FROM `
	rows := func() string {
		return r.Text(was+"tailbox_checkpoint t") + r.Text(was+"(SELECT * FROM tailbox_parked ORDER BY message_id, sink) t") + r.Text(was+"tailbox_request t")
	}
	before := rows()
	for what, err := range map[string]error{
		"open a store": func() error { _, err := postgres.Config(r.Cfg).Open(r.Ctx); return err }(),
		"list": func() error {
			_, _, err := postgres.Config(r.Cfg).Operator().List(r.Ctx, checkpoint.Selection{}, 10, false)
			return err
		}(),
	} {
		if !errors.Is(err, checkpoint.ErrOldTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "run tailbox init") {
			t.Errorf("%s on tables of an earlier version: %v", what, err)
		}
	}
	if problems := pgtest.Levels(r.Check(), check.Problem); !strings.Contains(problems, "of an earlier version: they lack "+old.Missing+" => run tailbox init") {
		t.Errorf("check does not say which migrations are missing: %s", problems)
	}
	if by == "script" {
		sql, err := setup.Script(r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.Exec(sql)
		r.Exec(sql)
	}
	done, err := setup.Init(r.Ctx, r.Cfg)
	if err != nil || by == "init" && !strings.Contains(strings.Join(done, ","), "updated tables tailbox_*: "+old.Missing) || by == "script" && len(done) > 0 {
		t.Fatalf("init: %v, %v", done, err)
	}
	if again, err := setup.Init(r.Ctx, r.Cfg); err != nil || len(again) > 0 {
		t.Errorf("second init: %v, %v", again, err)
	}
	pgtest.Equal(t, "what was there", rows(), before)
	pgtest.Equal(t, "tries", r.Text(`SELECT string_agg(tries || CASE WHEN tried_at = changed_at THEN '@' ELSE '' END, ' ' ORDER BY message_id, sink) FROM tailbox_parked`), old.Tries)
	pgtest.Equal(t, "indexes", r.Text(`SELECT count(*)::text FROM pg_indexes WHERE tablename = 'tailbox_parked'`), "8")
	pgtest.Equal(t, "recorded", r.Text(`SELECT string_agg(DISTINCT migration::text, ' ') FROM tailbox_checkpoint`), fmt.Sprint(len(migrate.All())))
	if problems := pgtest.Levels(r.Check(), check.Problem); strings.Contains(problems, "tailbox_*") {
		t.Errorf("problems: %s", problems)
	}
	pgtest.Equal(t, "loaded", sourcetest.LoadedText(r.Open()), old.Loaded)
	pgtest.Equal(t, "due", r.Due("kafka"), "kafka:1 kafka:6")
}

// TestNewTables: tables whose meaning a newer version changed are refused, those that it only added to are used, and an older init leaves
// them as they are.
func TestNewTables(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Exec("ALTER TABLE tailbox_checkpoint ALTER COLUMN migration SET DEFAULT 99; UPDATE tailbox_checkpoint SET migration = 99")
	r.Reopen()
	pgtest.Equal(t, "told", strings.Contains(pgtest.Levels(r.Check(), check.Info), "to migration 99"), true)
	if done, err := setup.Init(r.Ctx, r.Cfg); err != nil || strings.Contains(fmt.Sprint(done), "tailbox_*") {
		t.Errorf("init on newer tables: %v, %v", done, err)
	}
	r.Exec("UPDATE tailbox_checkpoint SET schema_version = schema_version + 1")
	before := r.Text("SELECT unclean_starts || ' ' || lease_epoch FROM tailbox_checkpoint")
	if err := r.St.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Config(r.Cfg).Open(r.Ctx); !errors.Is(err, checkpoint.ErrNewTables) || !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "newer tailbox") {
		t.Errorf("open a store on newer tables: %v", err)
	}
	pgtest.Equal(t, "a refused start is not counted", r.Text("SELECT unclean_starts + 1 || ' ' || lease_epoch FROM tailbox_checkpoint"), before)
	pgtest.Equal(t, "problem", strings.Contains(pgtest.Levels(r.Check(), check.Problem), "of version 2, this tailbox knows 1 => run a newer tailbox"), true)
}
