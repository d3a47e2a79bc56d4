package postgres

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// Check is content with what RoleSQL grants, and names each privilege of it that is missing, with the statement that grants it.
func TestCheckNamesEachMissingPrivilege(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"log", "poll"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			deleted, marked, kept := shape("debezium", "deleted"), shape("tailbox", "marked"), shape("debezium", "kept")
			kept.OnDelivered, marked.Retention = outbox.Keep, 1
			tables := []outbox.Table{deleted, marked, kept}
			if how == "poll" {
				tables = tables[1:2]
			}
			for i := range tables {
				tables[i].Schema = "shop"
			}
			r := newBareRig(t, servers.Shared(t, "17"), tables...)
			r.exec("CREATE SCHEMA shop; CREATE SCHEMA relay")
			r.cfg.Schema, r.cfg.Poll = "relay", how == "poll"
			if _, err := r.cfg.Init(r.ctx); err != nil {
				t.Fatal(err)
			}
			r.own()
			role := r.role("relay", "")
			script := RoleSQL(r.cfg, role)
			r.exec(script)
			cfg := r.as(role)
			problems := func() (found []Finding) {
				findings, err := cfg.Check(r.ctx)
				if err != nil {
					t.Error(err)
				}
				for _, f := range findings {
					if f.Level == Problem {
						found = append(found, f)
					}
				}
				return found
			}
			if found := problems(); len(found) > 0 {
				t.Errorf("with all that is printed: %+v", found)
			}
			grants := sourcetest.SingleGrants(script)
			if how == "log" {
				grants = append(grants, "ALTER ROLE "+quoteIdent(role)+" WITH REPLICATION")
			}
			for _, grant := range grants {
				revoke := strings.NewReplacer("GRANT ", "REVOKE ", " TO ", " FROM ", " WITH REPLICATION", " WITH NOREPLICATION").Replace(grant)
				r.exec(revoke)
				found := problems()
				if bare := strings.NewReplacer(`"`, ""); len(found) == 0 || bare.Replace(found[0].Cure) != bare.Replace(grant) {
					t.Errorf("after %s: %+v", revoke, found)
				}
				r.exec(grant)
			}
		})
	}
}
