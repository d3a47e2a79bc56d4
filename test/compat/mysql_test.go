package compat

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

func mysqlColumns() []typed {
	const notDone = "it is the database's text"
	return []typed{
		{"text", []string{"'a \"b\" ü😀'", "''"}, ""},
		{"varchar(20)", []string{"'{\"a\": 1}'"}, ""},
		{"char(5)", []string{"'ab'"}, ""},
		{"longtext", []string{"'x'"}, ""},
		{"json", []string{`'{"a" : [1, 2], "b": "x"}'`}, "tailbox writes a space behind : and ,"},
		{"blob", []string{`'{"a":1}'`, `x'deadff'`, `''`}, ""},
		{"varbinary(20)", []string{`x'deadff'`}, ""},
		{"tinyint", []string{"-128", "7"}, ""},
		{"tinyint(1)", []string{"1", "0"}, ""},
		{"smallint", []string{"-32768", "7"}, ""},
		{"smallint unsigned", []string{"65535"}, ""},
		{"mediumint", []string{"-8388608"}, ""},
		{"int", []string{"2147483647", "0"}, ""},
		{"int unsigned", []string{"4294967295"}, ""},
		{"bigint", []string{"-9223372036854775808", "9007199254740993"}, ""},
		{"bigint unsigned", []string{"9007199254740993"}, ""},
		{"float", []string{"1.5", "0.1", "1e10"}, ""},
		{"double", []string{"1.5", "0.1", "12345678.9", "1e7", "0.001", "1e-4", "1e300", "3"}, ""},
		{"timestamp(6) null", []string{"'2024-01-02 03:04:05.123456'", "'2024-01-02 03:04:05.5'", "'2024-01-02 03:04:05'"}, ""},
		{"timestamp null", []string{"'2024-01-02 03:04:05'"}, ""},
		{"timestamp(3) null", []string{"'2024-01-02 03:04:05.120'", "'2024-01-02 03:04:00'"}, ""},
		{"datetime(6)", []string{"'2024-01-02 03:04:05.123456'", "'1969-12-31 23:59:59.5'", "'2024-01-02 03:04:05'"}, ""},
		{"datetime(3)", []string{"'2024-01-02 03:04:05.123'"}, ""},
		{"datetime", []string{"'2024-01-02 03:04:05'"}, ""},
		{"date", []string{"'2024-02-29'", "'1969-12-31'"}, ""},
		{"time(6)", []string{"'03:04:05.123456'", "'00:00:00'"}, ""},
		{"time", []string{"'03:04:05'"}, ""},
		{"enum('sad','happy')", []string{"'happy'"}, ""},
		{"set('a','b')", []string{"'a,b'"}, ""},
		{"decimal(10,2)", []string{"12.50"}, notDone},
		{"binary(16)", []string{"x'0f3c1f5e00004000800000000000000a'"}, "it is a UUID"},
		{"bit(3)", []string{"b'101'"}, notDone},
	}
}

// What tailbox makes of a column of MySQL is what Debezium's connector and router make of it, from the same log.
func TestColumnsOfMySQLAreDebezium(t *testing.T) {
	t.Parallel()
	server := servers.MySQL(t, "mysql")
	db := server.NewDatabase(t)
	c := &connected{t: t, columns: mysqlColumns(), table: db + ".outbox"}
	c.exec = func(sql string) {
		t.Helper()
		if err := server.Exec(t.Context(), db, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	c.exec("CREATE USER dbz@'%' IDENTIFIED BY 'secret'")
	c.exec("GRANT ALL ON *.* TO dbz@'%'")
	c.connector = map[string]string{"connector.class": "io.debezium.connector.mysql.MySqlConnector", "database.hostname": "127.0.0.1",
		"database.port": strconv.Itoa(server.Port), "database.user": "dbz", "database.password": "secret", "database.server.id": "184054",
		"schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory", "include.schema.changes": "false",
		"database.include.list": db, "table.include.list": db + ".outbox"}
	c.reading = func() {
		conn, err := server.Connect(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		until(t, "Debezium to read", func() (bool, error) {
			res, err := conn.Execute("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'dbz' AND command LIKE 'Binlog Dump%'")
			if err != nil {
				return false, err
			}
			n, err := res.GetInt(0, 0)
			return n > 0, err
		})
	}
	c.source = func(table outbox.Table) source.Source {
		return mysql.Config{Kind: "mysql", Config: source.Config{Pipeline: "compare", URL: server.SocketURL(db), Tables: []outbox.Table{table}, MaxMessage: 1 << 20,
			Logger: slog.New(slog.DiscardHandler)}}.Source()
	}
	for _, sql := range mysqltest.RelayTables() {
		c.exec(sql)
	}
	c.create("id char(36) PRIMARY KEY, aggregatetype varchar(255), aggregateid varchar(255), type varchar(255), payload json")
	c.compare()
}
