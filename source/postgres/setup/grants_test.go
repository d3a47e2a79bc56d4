package setup_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Check is content with what RoleSQL grants, and names each privilege of it that is missing, with the statement that grants it.
func TestCheckNamesEachMissingPrivilege(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"log", "poll"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			deleted, marked, kept := pgtest.Shape("debezium", "deleted"), pgtest.Shape("tailbox", "marked"), pgtest.Shape("debezium", "kept")
			kept.OnDelivered, marked.Retention = outbox.Keep, 1
			tables := []outbox.Table{deleted, marked, kept}
			if how == "poll" {
				tables = tables[1:2]
			}
			for i := range tables {
				tables[i].Schema = "shop"
			}
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), tables...)
			r.Exec("CREATE SCHEMA shop; CREATE SCHEMA relay")
			r.Cfg.Schema, r.Cfg.Poll = "relay", how == "poll"
			if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
				t.Fatal(err)
			}
			r.Own()
			role := r.Role("relay", "")
			script := setup.RoleSQL(r.Cfg, role)
			r.Exec(script)
			cfg := r.As(role)
			problems := func() (found []check.Finding) {
				findings, err := setup.Check(r.Ctx, cfg)
				if err != nil {
					t.Error(err)
				}
				for _, f := range findings {
					if f.Level == check.Problem {
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
				grants = append(grants, "ALTER ROLE "+sqltext.Ident(role)+" WITH REPLICATION")
			}
			for _, grant := range grants {
				revoke := strings.NewReplacer("GRANT ", "REVOKE ", " TO ", " FROM ", " WITH REPLICATION", " WITH NOREPLICATION").Replace(grant)
				r.Exec(revoke)
				found := problems()
				if bare := strings.NewReplacer(`"`, ""); len(found) == 0 || bare.Replace(found[0].Fix) != bare.Replace(grant) {
					t.Errorf("after %s: %+v", revoke, found)
				}
				r.Exec(grant)
			}
		})
	}
}

// A feedback statement that deletes: the script and Check name the right that it takes.
func TestFeedbackThatDeletesNamesItsRight(t *testing.T) {
	t.Parallel()
	table := pgtest.Shape("tailbox", "outbox")
	table.Feedback = outbox.Feedback{outbox.OutcomeDelivered: "DELETE FROM state WHERE id = :id"}
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
	r.Exec("CREATE TABLE state (id text PRIMARY KEY)")
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	r.Own()
	role := r.Role("relay", "")
	script := setup.RoleSQL(r.Cfg, role)
	if !strings.Contains(script, "The feedback delivered of table outbox also takes SELECT and DELETE") {
		t.Errorf("the script:\n%s", script)
	}
	r.Exec(script)
	cfg := r.As(role)
	fixes := func() (fixes string) {
		findings, err := setup.Check(r.Ctx, cfg)
		if err != nil {
			t.Error(err)
		}
		for _, f := range findings {
			if strings.Contains(f.What, "cannot be carried out") {
				fixes += f.Fix
			}
		}
		return fixes
	}
	if got := fixes(); !strings.Contains(got, "GRANT SELECT and DELETE") {
		t.Errorf("without the right: %q", got)
	}
	r.Exec("GRANT SELECT, DELETE ON state TO " + sqltext.Ident(role))
	if got := fixes(); got != "" {
		t.Errorf("with the right: %q", got)
	}
}
