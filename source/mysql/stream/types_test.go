package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// typeCases are types of columns, each with values as SQL writes them.
func typeCases(kind string) [][]string {
	cases := [][]string{
		{"TINYINT", "-128", "127"}, {"TINYINT UNSIGNED", "255"}, {"SMALLINT", "-32768"}, {"SMALLINT UNSIGNED", "65535"},
		{"MEDIUMINT", "-8388608", "-1"}, {"MEDIUMINT UNSIGNED", "16777215"}, {"INT", "-2147483648"}, {"INT UNSIGNED", "4294967295"},
		{"BIGINT", "-9223372036854775808"}, {"BIGINT UNSIGNED", "18446744073709551615"},
		{"DECIMAL(10,2)", "-0.05", "12345678.90", "0"}, {"DECIMAL(30,15)", "123456789012345.000000000000001", "-1"}, {"DECIMAL(9,0)", "-7"},
		{"DECIMAL(65,30)", "-99999999999999999999999999999999999.999999999999999999999999999999"}, {"DECIMAL(3,3)", "0.123"},
		{"DOUBLE", "1.5", "-0.1", "1000000", "123456789012345678", "1e15", "-1e-5", "1.7976931348623157e308", "5e-324", "0.1234567890123456", "100000000000000", "1e-15", "1e-16", "-0e0", "123456.7", "12345678901234567890"},
		{"DOUBLE(10,2)", "1.5", "-1234567.8"}, {"DOUBLE UNSIGNED", "1e6"},
		{"FLOAT", "1.5", "1000000", "1234567", "16777216", "0.1", "3.402823e38", "-1e-7", "1e15", "123456.7", "1e-45", "-0e0", "1e14"}, {"FLOAT(7,3)", "1.5", "1000.125"}, {"FLOAT UNSIGNED", "1e6"},
		{"INT(5) ZEROFILL", "42"}, {"DECIMAL(8,2) ZEROFILL", "1.5"}, {"DOUBLE ZEROFILL", "1.5"}, {"YEAR", "1901"}, {"BIT(1)", "1"}, {"BIT(12)", "2748"}, {"YEAR", "2026", "0"},
		{"DATE", "'2026-02-28'", "'0000-00-00'", "'9999-12-31'"}, {"TIME", "'-838:59:59'", "'01:02:03'"}, {"TIME(3)", "'-00:00:00.001'", "'23:59:59.999'"},
		{"TIME(6)", "'-12:34:56.000001'"}, {"TIME(1)", "'-00:00:01.5'"},
		{"DATETIME", "'2026-11-21 14:00:01'", "'0000-00-00 00:00:00'"}, {"DATETIME(2)", "'1000-01-01 00:00:00.01'"}, {"DATETIME(6)", "'2026-11-21 14:00:01.000001'"},
		{"TIMESTAMP NULL", "'2026-11-21 14:00:01'", "'0000-00-00 00:00:00'"}, {"TIMESTAMP(3) NULL", "'2026-11-21 14:00:01.120'"}, {"TIMESTAMP(6) NULL", "'2037-11-21 14:00:01.999999'"},
		{"CHAR(3)", "'a'", "''", "'\u00e4\U0001F600'"}, {"CHAR(255)", "REPEAT('\u00e4',255)"}, {"VARCHAR(10)", "'a '", "''"}, {"VARCHAR(2000)", "REPEAT('x',300)"},
		{"TEXT", "'\u20ac'"}, {"LONGTEXT", "REPEAT('long ',20000)"}, {"VARCHAR(20) CHARACTER SET latin1", "'\u00e4\u20ac\u2122'"}, {"VARCHAR(20) CHARACTER SET utf8mb3", "'\u20ac'"},
		{"CHAR(10) CHARACTER SET ascii", "'abc'"}, {"ENUM('a','it''s','\u00e4')", "'it''s'", "'\u00e4'"}, {"SET('x','y','z')", "'x,z'", "''"},
		{"BINARY(16)", "X'00112233445566778899aabbccdd0000'", "X'00'"}, {"BINARY(4)", "'ab'"}, {"VARBINARY(8)", "'a'"}, {"BLOB", "'blob'"},
	}
	if kind == server.KindMySQL {
		cases = append(cases, []string{"JSON", "'{\"b\": [1, -2, 3.5, null, true, false], \"aa\": {\"x\": \"q\\\\\"\\\\n\\\\u0001\\u20ac\"}}'", "'\"\"'", "'[]'", "'{}'", "'1e100'", "'1.0'",
			"'[100000000000000000000, 123456789012345, 1234567890123456.0, 1e15, 1e16, 0.00001, 1e-15, 1e-16, 0.1, -1.5e-7, 12345678.5, 18446744073709551615]'",
			"CAST(CAST('12.50' AS DECIMAL(10,2)) AS JSON)", "JSON_ARRAY(CAST('2026-01-02' AS DATE), CAST('2026-01-02 03:04:05.678' AS DATETIME(3)), CAST('-12:00:01' AS TIME))",
			"JSON_ARRAY(CAST('ab' AS BINARY))", "CONCAT('[', REPEAT('\"0123456789\",', 8000), '1]')", "JSON_OBJECT('k', REPEAT('v', 70000))", "'[70000, -70000, 3000000000, -3000000000]'"})
	} else {
		cases = append(cases, []string{"JSON", "'{ \"b\":1.0}'"}, []string{"UUID", "'00112233-4455-1677-8899-aabbccddeeff'", "'123e4567-e89b-72d3-a456-426655440000'"})
	}
	return cases
}

// What the log makes of a row is exactly what SQL makes of it, for every type that can be read.
func TestTypesLogEqualsSQL(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		for _, metadata := range []string{"FULL", "MINIMAL"} {
			t.Run(metadata, func(t *testing.T) {
				t.Parallel()
				my := servers.SharedMySQL(t, kind)
				if metadata != "FULL" {
					my = servers.MySQL(t, kind, servers.WithSetting("binlog_row_metadata", metadata))
				}
				testTypes(t, my)
			})
		}
	})
}

// The id of a column with ZEROFILL is the number, in the log, in a query of messages, and where SQL looks for ids.
func TestZerofillID(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		table := mysqltest.Shaped("debezium", "outbox")
		r := newSourceRig(t, servers.SharedMySQL(t, kind), table)
		for _, typ := range []string{"INT(5) ZEROFILL", "DECIMAL(9,0) ZEROFILL"} {
			r.Exec("DROP TABLE outbox", "CREATE TABLE outbox (id "+typ+" PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT, payload TEXT)")
			r.Renew()
			from := r.Establish()
			r.Exec("INSERT INTO outbox VALUES (42, 'a', 'b', 'T', 'p')")
			x := r.Run(from)
			x.Until("42")
			x.Stop()
			if swept := r.Sweep(); len(swept) != 1 || swept[0].ID != "42" {
				t.Errorf("%s: swept %+v", typ, swept)
			}
			s, err := r.Cfg.Connect(r.Ctx, r.Cfg.URL)
			if err != nil {
				t.Fatal(err)
			}
			cat, err := readCatalog(r.Ctx, &r.Cfg, s)
			if err := errors.Join(err, s.Close(r.Ctx)); err != nil {
				t.Fatal(err)
			}
			if got := r.One("SELECT " + cat.tables[0].IDText("t") + " FROM outbox t"); got != "42" {
				t.Errorf("%s: SQL looks for id %q", typ, got)
			}
		}
	})
}

func testTypes(t *testing.T, my *servers.My) {
	table := mysqltest.Shaped("debezium", "outbox")
	cases := typeCases(my.Kind)
	rows := 0
	for i, c := range cases {
		table.Fields = append(table.Fields, fmt.Sprintf("f%d", i))
		rows = max(rows, len(c)-1)
	}
	r := newSourceRig(t, my, table)
	r.Exec("SET NAMES utf8mb4, sql_mode = '', time_zone = '+05:00'")
	for i, c := range cases {
		r.Exec(fmt.Sprintf("ALTER TABLE outbox MODIFY f%d %s", i, c[0]))
	}
	from := r.Establish()
	want := ""
	for n := range rows {
		columns, values := "id, aggregatetype, aggregateid, type, payload", fmt.Sprintf("'%s', 'a', 'b', 'T', '{}'", mysqltest.Number(n+1))
		for i, c := range cases {
			if n < len(c)-1 {
				columns += fmt.Sprintf(", f%d", i)
				values += ", " + c[n+1]
			}
		}
		r.Exec("INSERT INTO outbox (" + columns + ") VALUES (" + values + ")")
		want += fmt.Sprint(n+1) + " "
	}
	x := r.Run(from)
	x.Until(strings.TrimSpace(want))
	swept := r.Sweep()
	if len(swept) != len(x.Messages) {
		t.Fatalf("swept %d messages, read %d", len(swept), len(x.Messages))
	}
	for n, m := range x.Messages {
		for i, f := range m.Fields {
			s := swept[n].Fields[i]
			if string(f.Value) != string(s.Value) || f.Null != s.Null {
				t.Errorf("%s: %s reads as %.400q (null %v) from the log, and %.400q (null %v) by SQL", cases[i][0], cases[i][min(n+1, len(cases[i])-1)],
					f.Value, f.Null, s.Value, s.Null)
			}
			if f.Type != s.Type || n == 0 && fieldTypes()[cases[i][0]] != f.Type {
				t.Errorf("%s is of type %q in the log and %q in the table, want %q", cases[i][0], f.Type, s.Type, fieldTypes()[cases[i][0]])
			}
			if f.Null == (n < len(cases[i])-1) {
				t.Errorf("%s: value %d is null: %v", cases[i][0], n, f.Null)
			}
		}
		if m.Fault != nil || swept[n].Fault != nil {
			t.Errorf("faults %+v, %+v", m.Fault, swept[n].Fault)
		}
	}
}

// fieldTypes are those of types of columns that are not texts.
func fieldTypes() map[string]outbox.FieldType {
	types := map[string]outbox.FieldType{"FLOAT": outbox.FieldFloat32, "FLOAT(7,3)": outbox.FieldFloat32, "FLOAT UNSIGNED": outbox.FieldFloat32, "DOUBLE": outbox.FieldFloat64,
		"DOUBLE(10,2)": outbox.FieldFloat64, "DOUBLE UNSIGNED": outbox.FieldFloat64, "DOUBLE ZEROFILL": outbox.FieldFloat64, "DATE": outbox.FieldDate, "TIME": outbox.FieldTimeMicros,
		"TIME(1)": outbox.FieldTimeMicros, "TIME(3)": outbox.FieldTimeMicros, "TIME(6)": outbox.FieldTimeMicros, "DATETIME": outbox.FieldDatetimeMillis, "DATETIME(2)": outbox.FieldDatetimeMillis,
		"DATETIME(6)": outbox.FieldDatetimeMicros, "TIMESTAMP NULL": outbox.ZonedType(0), "TIMESTAMP(3) NULL": outbox.ZonedType(3), "TIMESTAMP(6) NULL": outbox.ZonedType(6),
		"BINARY(4)": outbox.FieldBytes, "VARBINARY(8)": outbox.FieldBytes, "BLOB": outbox.FieldBytes, "INT(5) ZEROFILL": outbox.FieldBare}
	for _, name := range []string{"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"} {
		types[name], types[name+" UNSIGNED"] = outbox.FieldBare, outbox.FieldBare
	}
	return types
}

// Debezium does not look at the type of an outbox event: neither where it is NULL nor where the table has none is a row of its shape dead.
func TestRowsWithoutType(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := newSourceRig(t, servers.SharedMySQL(t, kind), mysqltest.Shaped("debezium", "outbox"))
		r.Exec("DROP TABLE outbox", "CREATE TABLE outbox (id VARCHAR(9) PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT, payload BLOB)")
		r.Renew()
		from := r.Establish()
		r.Exec("INSERT INTO outbox VALUES ('1', 'a', 'g', NULL, 'p')", "ALTER TABLE outbox DROP type", "INSERT INTO outbox VALUES ('2', 'a', 'g', 'p')")
		x := r.Run(from)
		x.Until("1 2")
		for _, m := range x.Messages {
			if m.Fault != nil || m.Type != "" || m.Group != "a:g" || string(m.Payload) != "p" || !m.Binary {
				t.Errorf("message %s: %+v, fault %+v", m.ID, m, m.Fault)
			}
		}
	})
}

// Whatever columns stand before them, texts and bytes are read by their own character sets.
func TestColumnsBeforeText(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		table := mysqltest.Shaped("debezium", "outbox")
		table.Fields = []string{"f0", "f1", "f2", "f3"}
		r := newSourceRig(t, servers.SharedMySQL(t, kind), table)
		r.Exec("SET NAMES utf8mb4", "DROP TABLE outbox", "CREATE TABLE outbox (id CHAR(36) PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT, payload TEXT) CHARSET utf8mb4")
		for i, typ := range []string{"VARCHAR(20) CHARACTER SET latin1", "VARBINARY(20)", "TEXT", "BLOB"} {
			r.Exec(fmt.Sprintf("ALTER TABLE outbox ADD f%d %s", i, typ))
		}
		types := []string{"GEOMETRY", "POINT", "JSON", "ENUM('\u00e4')", "SET('\u00e4') CHARACTER SET latin1", "BIT(3)", "CHAR(0)", "BINARY(3)", "INT"}
		if kind == server.KindMySQL {
			types = append(types, "VECTOR(2)")
		} else {
			types = append(types, "TEXT COMPRESSED", "VARCHAR(30) COMPRESSED", "BLOB COMPRESSED", "UUID", "INET6", "INET4")
		}
		for i, typ := range types {
			r.Exec("ALTER TABLE outbox ADD before_text " + typ + " FIRST")
			from := r.Establish()
			r.Exec(fmt.Sprintf("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, f0, f1, f2, f3) VALUES ('%s', 'a', 'b', '\u00e4', '\u20ac', '\u00e4', X'e4ff', '\u00e4', X'00e4')", mysqltest.Number(i+1)))
			x := r.Run(from)
			x.Until(fmt.Sprint(i + 1))
			x.Stop()
			got := ""
			for _, f := range x.Messages[0].Fields {
				got += fmt.Sprintf("%q ", f.Value)
			}
			if want := `"ä" "\xe4\xff" "ä" "\x00\xe4" `; got != want || x.Messages[0].Fault != nil || x.Messages[0].Type != "ä" {
				t.Errorf("behind a column of type %s: %s, want %s; fault %+v", typ, got, want, x.Messages[0].Fault)
			}
			r.Exec("ALTER TABLE outbox DROP before_text")
		}
	})
}
