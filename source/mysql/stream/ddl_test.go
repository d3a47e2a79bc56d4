package stream

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

// CREATE TABLE … SELECT in statement format writes rows that the log does not hold.
func TestCreateSelectInStatementFormat(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind))
		r.Cfg.Tables[0].OnDelivered = outbox.Keep
		r.Renew()
		r.Exec("CREATE TABLE model LIKE outbox", strings.Replace(mysqltest.Insert(5), "outbox", "model", 1))
		from := r.Establish()
		r.Exec("RENAME TABLE outbox TO old", "CREATE TABLE outbox LIKE old", mysqltest.Insert(1))
		r.Exec("SET SESSION binlog_format = 'STATEMENT'", "CREATE TABLE copy SELECT * FROM outbox", "RENAME TABLE outbox TO older", "CREATE TABLE outbox (PRIMARY KEY (id)) SELECT * FROM model",
			"SET SESSION binlog_format = 'ROW'", "INSERT INTO outbox (id, type, payload, seq) VALUES ('"+mysqltest.Number(2)+"', 'T', 'p', 9)")
		if err := endsBefore(r.Run(from), mysqltest.Number(2)); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "written in statement format") {
			t.Errorf("Run over CREATE TABLE … SELECT: %v", err)
		}
		// In row format its rows are in the log, and a comparison of the words with a name is none with the statement.
		r.Exec("DROP TABLE outbox")
		r.Exec("CREATE TABLE outbox LIKE older")
		from = r.Establish()
		r.Exec("RENAME TABLE outbox TO oldest", "CREATE TABLE outbox (PRIMARY KEY (id), `select` INT) SELECT * FROM model", "INSERT INTO outbox (id, type, payload, seq) VALUES ('"+mysqltest.Number(6)+"', 'T', 'p', 9)")
		r.Run(from).Until("5 6")
	})
}

// Generated columns, stored or virtual, are in the log, and are read like others.
func TestGeneratedColumns(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		table := mysqltest.Shaped("debezium", "outbox")
		table.Fields = []string{"f0", "f1", "f2", "f3"}
		r := newSourceRig(t, servers.SharedMySQL(t, kind), table)
		r.Exec("ALTER TABLE outbox DROP f0, DROP f1, DROP f2, DROP f3", "ALTER TABLE outbox ADD f0 VARCHAR(80) AS (CONCAT(type, '-s')) STORED, ADD f1 VARCHAR(80) AS (CONCAT(type, '-v')) VIRTUAL",
			"ALTER TABLE outbox ADD f2 INT AS (LENGTH(payload)) STORED, ADD f3 INT AS (LENGTH(payload)) VIRTUAL")
		from := r.Establish()
		r.Exec("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('" + mysqltest.Number(1) + "', 'a', 'b', 'T', '{}')")
		x := r.Run(from)
		x.Until("1")
		x.Stop()
		swept := r.Sweep()
		for _, m := range append(x.Messages, swept...) {
			got := ""
			for _, f := range m.Fields {
				got += string(f.Value) + " "
			}
			if want := "T-s T-v 2 2 "; got != want || m.Fault != nil {
				t.Errorf("generated columns: %s, want %s; fault %+v", got, want, m.Fault)
			}
		}
		if len(swept) != 1 {
			t.Errorf("swept %d messages", len(swept))
		}
	})
}
