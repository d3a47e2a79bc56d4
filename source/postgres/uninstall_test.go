package postgres

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// made shows what there is of slot, publication and own tables.
func (r *storeRig) made() string {
	r.t.Helper()
	return r.text(`SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1) || ' '
		|| (SELECT count(*) FROM pg_publication WHERE pubname = $2) || ' ' || (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tailbox_%')`,
		r.cfg.Slot, r.cfg.Publication)
}

// Uninstall leaves what others made, and names it; so does the script.
func TestUninstallLeavesWhatOthersMade(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"command", "script", "command without tables"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newOwnerRig(t)
			r.exec("DROP PUBLICATION " + quoteIdent(r.cfg.Publication))
			r.exec("CREATE PUBLICATION " + quoteIdent(r.cfg.Publication) + " FOR ALL TABLES")
			r.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.cfg.Slot)
			if how == "script" {
				r.exec(uninstallSQL(r.cfg))
				equal(t, "what is left", r.made(), "1 1 0")
				return
			}
			if how != "command" {
				r.exec("DROP TABLE tailbox_checkpoint, tailbox_parked, tailbox_request")
			}
			_, left, err := r.cfg.Uninstall(r.ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "what is left", r.made(), "1 1 0")
			for _, want := range []string{"slot " + r.cfg.Slot, "publication " + r.cfg.Publication, "pg_drop_replication_slot", "DROP PUBLICATION"} {
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
			r := newOwnerRig(t)
			r.cfg.Start = "now"
			r.positioned()
			equal(t, "what there is", r.made(), "1 1 3")
			if how == "script" {
				r.exec(uninstallSQL(r.cfg))
			} else if _, left, err := r.cfg.Uninstall(r.ctx, true); err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
			equal(t, "what is left", r.made(), "0 0 0")
		})
	}
}

// What another pipeline uses stays, whoever made it.
func TestUninstallLeavesWhatAnotherPipelineUses(t *testing.T) {
	t.Parallel()
	r := newBareRig(t, servers.Shared(t, "17"), shape("debezium", "outbox"))
	if _, err := r.cfg.Init(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.positioned()
	r.exec("INSERT INTO tailbox_checkpoint (pipeline, publication, schema_version) VALUES ('another', $1, 1)", r.cfg.Publication)
	_, left, err := r.cfg.Uninstall(r.ctx, true)
	if err != nil || len(left) != 1 || !strings.Contains(left[0], "pipeline another") {
		t.Errorf("left %q, %v", left, err)
	}
	equal(t, "what is left", r.made(), "0 1 3")
}
