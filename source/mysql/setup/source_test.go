package setup

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// A COMPRESSED column of MariaDB cannot be read from the log, and check says so; a label of that name is but a label.
func TestCompressedColumns(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		table := mysqltest.Shaped("debezium", "outbox")
		table.Fields = []string{"f0"}
		r := mysqltest.NewSourceRig(t, servers.SharedMySQL(t, kind), newSource, table)
		for typ, want := range map[string]bool{"ENUM('compressed','plain')": false, "VARCHAR(20) COMPRESSED": true, "TEXT COMPRESSED": true} {
			if want && kind == server.KindMySQL {
				continue // it has no such columns
			}
			r.Exec("ALTER TABLE outbox MODIFY f0 " + typ)
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			told := false
			for _, f := range findings {
				told = told || f.Level == check.Problem && strings.Contains(f.What, "column f0 of table") && strings.Contains(f.What, "COMPRESSED")
			}
			if told != want {
				t.Errorf("check of a column of type %s: %+v", typ, findings)
			}
		}
	})
}

// What the server cuts short for everybody is whole for a sweep, and the columns of tables are all looked up.
func TestSettingsThatCutAnswers(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := mysqltest.NewSourceRig(t, servers.MySQL(t, kind), newSource)
		r.Exec(mysqltest.Insert(1, 2, 3, 4, 5), "SET GLOBAL sql_select_limit = 2", "SET GLOBAL max_join_size = 3")
		if ms := r.Sweep(); len(ms) != 5 {
			t.Errorf("%d messages were swept, want 5", len(ms))
		}
		x := r.Run(r.Establish())
		r.Exec(mysqltest.Insert(6))
		x.Until("6")
		x.Stop()
		if findings, err := Check(r.Ctx, r.Cfg); err != nil || mysqltest.CountProblems(findings) > 0 {
			t.Errorf("check: %v, %v", findings, err)
		}
		r.Exec("SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL max_join_size = DEFAULT")
	})
}
