package setup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// has reports whether one of the findings is of a level and says both parts.
func has(findings []check.Finding, level check.Level, part, other string) bool {
	return slices.ContainsFunc(findings, func(f check.Finding) bool {
		return f.Level == level && strings.Contains(f.What, part) && strings.Contains(f.What, other)
	})
}

// Nobody can write a generated column: check refuses one that the relay would write, and takes one that messages are made of.
func TestCheckOfGeneratedColumns(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		for column, written := range map[string]bool{
			"status VARCHAR(20) GENERATED ALWAYS AS (IF(payload = '', 'done', 'pending')) STORED":    true,
			"attempts INT GENERATED ALWAYS AS (LENGTH(payload)) VIRTUAL":                             true,
			"type VARCHAR(20) GENERATED ALWAYS AS (CONCAT('of ', LENGTH(payload))) STORED":           false,
			"message_group VARCHAR(20) GENERATED ALWAYS AS (CONCAT('of ', LENGTH(payload))) VIRTUAL": false,
		} {
			table := mysqltest.Shaped("tailbox", "outbox")
			table.OnDelivered = outbox.Mark
			r := mysqltest.NewSourceRig(t, servers.SharedMySQL(t, kind), newSource, table)
			name, _, _ := strings.Cut(column, " ")
			r.Exec("ALTER TABLE outbox DROP COLUMN "+name, "ALTER TABLE outbox ADD COLUMN "+column)
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			if told := has(findings, check.Problem, fmt.Sprintf("column %s of table", name), "is generated"); told != written {
				t.Errorf("check of %s: %v", column, findings)
			}
		}
	})
}

// A time that the server sets at each change does not tell which row is older.
func TestCheckOfATouchedTime(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		for column, told := range map[string]bool{
			"created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)": true,
			"created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)":                                false,
		} {
			r := mysqltest.NewSourceRig(t, servers.SharedMySQL(t, kind), newSource, mysqltest.Shaped("tailbox", "outbox"))
			r.Exec("ALTER TABLE outbox DROP COLUMN seq, DROP COLUMN created_at", "ALTER TABLE outbox ADD COLUMN "+column)
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			if found := has(findings, check.Warning, "column created_at of table", "changes whenever the row does"); found != told {
				t.Errorf("check of %s: %v", column, findings)
			}
		}
	})
}
