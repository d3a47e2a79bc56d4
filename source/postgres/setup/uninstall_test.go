package setup_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/test/servers"
)

// made shows what there is of slot, publication and own tables.
func made(r *pgtest.StoreRig) string {
	r.T.Helper()
	return r.Text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1) || ' '
		|| (SELECT count(*) FROM pg_publication WHERE pubname = $2) || ' ' || (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tailbox_%')`,
		r.Cfg.Slot, r.Cfg.Publication)
}

// Uninstall leaves what others made, and names it; so does the script.
func TestUninstallLeavesWhatOthersMade(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"command", "script", "command without tables"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewOwnerRig(t)
			r.Exec("DROP PUBLICATION " + sqltext.Ident(r.Cfg.Publication))
			r.Exec("CREATE PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " FOR ALL TABLES")
			r.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.Cfg.Slot)
			if how == "script" {
				r.Exec(setup.UninstallScript(r.Cfg))
				pgtest.Equal(t, "what is left", made(r), "1 1 0")
				return
			}
			if how != "command" {
				r.Exec("DROP TABLE tailbox_checkpoint, tailbox_parked, tailbox_request")
			}
			_, left, err := setup.Uninstall(r.Ctx, r.Cfg, true)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "what is left", made(r), "1 1 0")
			for _, want := range []string{"slot " + r.Cfg.Slot, "publication " + r.Cfg.Publication, "pg_drop_replication_slot", "DROP PUBLICATION"} {
				if !strings.Contains(strings.Join(left, "\n"), want) {
					t.Errorf("left %q lacks %q", left, want)
				}
			}
		})
	}
}

func TestUninstallDropsItsOwn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"command", "script"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewOwnerRig(t)
			r.Cfg.Start = "now"
			r.Positioned()
			pgtest.Equal(t, "what there is", made(r), "1 1 3")
			if how == "script" {
				r.Exec(setup.UninstallScript(r.Cfg))
			} else if _, left, err := setup.Uninstall(r.Ctx, r.Cfg, true); err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
			pgtest.Equal(t, "what is left", made(r), "0 0 0")
		})
	}
}

// What another pipeline uses stays, whoever made it.
func TestUninstallLeavesWhatAnotherPipelineUses(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("debezium", "outbox"))
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	r.Positioned()
	r.Exec("INSERT INTO tailbox_checkpoint (pipeline, publication, schema_version) VALUES ('another', $1, 1)", r.Cfg.Publication)
	_, left, err := setup.Uninstall(r.Ctx, r.Cfg, true)
	if err != nil || len(left) != 1 || !strings.Contains(left[0], "pipeline another") {
		t.Errorf("left %q, %v", left, err)
	}
	pgtest.Equal(t, "what is left", made(r), "0 1 3")
}
