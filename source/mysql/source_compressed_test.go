package mysql

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A COMPRESSED column of MariaDB cannot be read from the log, and check says so; a label of that name is but a label.
func TestCompressedColumns(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		table := shaped("debezium", "outbox")
		table.Fields = []string{"f0"}
		r := rigWithSource(t, servers.SharedMySQL(t, kind), newSource, table)
		for typ, want := range map[string]bool{"ENUM('compressed','plain')": false, "VARCHAR(20) COMPRESSED": true, "TEXT COMPRESSED": true} {
			if want && kind == KindMySQL {
				continue // it has no such columns
			}
			r.exec("ALTER TABLE outbox MODIFY f0 " + typ)
			findings, err := Check(r.ctx, r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			told := false
			for _, f := range findings {
				told = told || f.Level == store.Problem && strings.Contains(f.What, "column f0 of table") && strings.Contains(f.What, "COMPRESSED")
			}
			if told != want {
				t.Errorf("check of a column of type %s: %+v", typ, findings)
			}
		}
	})
}

// What the server cuts short for everybody is whole for a sweep, and the columns of tables are all looked up.
func TestSettingsThatCutAnswers(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		r := rigWithSource(t, servers.MySQL(t, kind), newSource)
		r.exec(insert(1, 2, 3, 4, 5), "SET GLOBAL sql_select_limit = 2", "SET GLOBAL max_join_size = 3")
		if ms := r.sweep(); len(ms) != 5 {
			t.Errorf("%d messages were swept, want 5", len(ms))
		}
		x := r.run(r.establish())
		r.exec(insert(6))
		x.until("6")
		x.stop()
		if findings, err := Check(r.ctx, r.cfg); err != nil || countProblems(findings) > 0 {
			t.Errorf("check: %v, %v", findings, err)
		}
		r.exec("SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL max_join_size = DEFAULT")
	})
}
