package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Check is content with what RoleSQL grants, and names each privilege of it that is missing, with the statement that grants it.
func TestCheckNamesEachMissingPrivilege(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for _, how := range []string{"log", "poll"} {
			t.Run(how, func(t *testing.T) {
				deleted, marked, kept := mysqltest.StoreShape("debezium", "deleted"), mysqltest.StoreShape("tailbox", "marked"), mysqltest.StoreShape("debezium", "kept")
				kept.OnDelivered, marked.Retention = outbox.Keep, 1
				shown := mysqltest.StoreShape("debezium", "shown") // parked deliveries show in a column of the application's
				shown.Set = []outbox.SetValue{{State: "dead", Column: "blocked", Value: "1"}}
				tables := []outbox.Table{deleted, marked, kept, shown}
				if how == "poll" {
					tables = tables[1:2]
				}
				r := mysqltest.NewBareRig(t, my, mystore.Open, nil, tables...)
				r.Cfg.Poll = how == "poll"
				if _, err := Init(r.Ctx, r.Cfg); err != nil {
					t.Fatal(err)
				}
				if how == "log" {
					r.Exec("ALTER TABLE shown ADD blocked INT")
				}
				account, cfg := mysqltest.NewAccount(r, "relay", RoleSQL(r.Cfg, "{account}", r.DB))
				bare := func(sql string) string { return strings.ReplaceAll(strings.ReplaceAll(sql, "`", ""), r.DB+".", "") }
				problems := func() (found []check.Finding) {
					findings, err := Check(r.Ctx, cfg)
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
				for _, grant := range sourcetest.SingleGrants(RoleSQL(r.Cfg, account, r.DB)) {
					revoke := strings.NewReplacer("GRANT ", "REVOKE ", " TO ", " FROM ").Replace(grant)
					r.Exec(revoke)
					if found := problems(); !slices.ContainsFunc(found, func(f check.Finding) bool { return bare(f.Fix) == bare(grant) }) {
						t.Errorf("after %s: %+v", revoke, found)
					}
					r.Exec(grant)
				}
			})
		}
	})
}

// A feedback statement that deletes: the script and Check name the right that it takes.
func TestFeedbackThatDeletesNamesItsRight(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table := mysqltest.StoreShape("tailbox", "outbox")
		table.Feedback = outbox.Feedback{outbox.OutcomeDelivered: "DELETE FROM state WHERE id = :id"}
		r := mysqltest.NewBareRig(t, my, mystore.Open, nil, table)
		r.Exec("CREATE TABLE state (id VARCHAR(36) PRIMARY KEY)")
		if _, err := Init(r.Ctx, r.Cfg); err != nil {
			t.Fatal(err)
		}
		account, cfg := mysqltest.NewAccount(r, "relay", RoleSQL(r.Cfg, "{account}", r.DB))
		if script, err := Script(r.Cfg); err != nil || !strings.Contains(script, "The feedback delivered of table outbox also takes SELECT and DELETE") {
			t.Errorf("the script (%v):\n%s", err, script)
		}
		fixes := func() (fixes string) {
			findings, err := Check(r.Ctx, cfg)
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
		r.Exec("GRANT SELECT, DELETE ON " + r.DB + ".state TO " + account)
		if got := fixes(); got != "" {
			t.Errorf("with the right: %q", got)
		}
	})
}
