package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/setup"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// idTable is a table with an id of some type, and all columns that a mark writes.
func idTable(typ string) (outbox.Table, string) {
	t := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(), Columns: outbox.Columns{ID: "the id", Type: "type",
		Payload: "payload", Status: "st", Attempts: "tries", LastAttemptAt: "tried_at", LastError: "err", DeliveredAt: "done_at"}}
	return t, "CREATE TABLE events (`the id` " + typ + " PRIMARY KEY, type TEXT, payload TEXT, " +
		"st ENUM('pending','delivered','dead','waiting','retrying') DEFAULT 'pending', tries SMALLINT, tried_at TIMESTAMP(3) NULL, " +
		"err VARCHAR(9) CHARACTER SET latin1, done_at DATETIME)"
}

// TestIDsAreExact: what a collation calls equal, or differs in trailing spaces alone, is another row. On each type one row is
// settled beside others that look like it, whatever was deleted and inserted since it was read.
func TestIDsAreExact(t *testing.T) {
	for _, c := range []struct {
		typ      string
		id       string   // as a message has it
		written  string   // SQL; "" = the id as a literal
		others   []string // rows that stay
		impostor string   // an id that the column takes for the same one, or ""
		only     string   // the kind of server that has this type
	}{
		{typ: "CHAR(36)", id: "0b0e8f6a-8a3e-4b58-9d3c-11111111abcd", impostor: "0B0E8F6A-8A3E-4B58-9D3C-11111111ABCD"},
		{typ: "VARCHAR(100)", id: "Straße é", impostor: "STRASSE E"},
		{typ: "VARCHAR(100)", id: "a'\\%_\U0001F600", others: []string{"'b'"}},
		{typ: "VARCHAR(100) COLLATE utf8mb4_bin", id: "a", others: []string{"'A'"}, impostor: "a "},
		{typ: "VARCHAR(100) CHARACTER SET latin1", id: "é", impostor: "E"},
		{typ: "VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin", id: "x", others: []string{"'y'", "'X'"}},
		{typ: "TEXT", id: "a long id that begins as another", others: []string{"'a long id that begins as another one'"}},
		{typ: "VARBINARY(30)", id: "a\x00\xff'", written: "X'6100ff27'", others: []string{"'a'", "X'6100ff'", "X'6100ff2700'"}},
		{typ: "BINARY(16)", id: "0b0e8f6a-8a3e-4b58-9d3c-111111110000", written: "X'0b0e8f6a8a3e4b589d3c111111110000'",
			others: []string{"X'0b0e8f6a8a3e4b589d3c111111110001'"}},
		{typ: "BINARY(4)", id: "ab\x00\x00", written: "'ab'", others: []string{"'abc'", "'a'"}},
		{typ: "BIGINT UNSIGNED", id: "18446744073709551615", others: []string{"1", "9223372036854775807"}},
		{typ: "BIGINT", id: "-9223372036854775808", others: []string{"9223372036854775807", "0"}},
		{typ: "SMALLINT", id: "7", others: []string{"70"}},
		{typ: "DECIMAL(12,2)", id: "1.50", others: []string{"1.51"}},
		{typ: "DATETIME(3)", id: "2024-02-03 04:05:06.789", others: []string{"'2024-02-03 04:05:06.788'"}},
		{typ: "ENUM('a','b')", id: "b", others: []string{"'a'"}},
		{typ: "UUID", id: "0b0e8f6a-8a3e-4b58-9d3c-111111111111", others: []string{"'0b0e8f6a-8a3e-4b58-9d3c-111111111112'"}, only: server.KindMariaDB},
	} {
		t.Run(c.typ+" "+c.id[:min(len(c.id), 3)], func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				if c.only != "" && c.only != my.Kind {
					t.Skip("there is no such type")
				}
				table, ddl := idTable(c.typ)
				if c.typ == "TEXT" {
					ddl = strings.Replace(ddl, " PRIMARY KEY", ", KEY (`the id`(20))", 1)
				}
				r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
				r.Open()
				write := func(literal string) {
					t.Helper()
					if literal == "" {
						literal = quote.Text(c.id)
					}
					r.Exec("INSERT INTO events (`the id`, type) VALUES (" + literal + ", 'T')")
				}
				write(c.written)
				for _, other := range c.others {
					write(other)
				}
				state := func() string {
					return r.Text("SELECT CONCAT_WS(' ', st, tries, err) FROM events WHERE st <> 'pending'")
				}
				m := &outbox.Message{ID: c.id, Table: r.DB + ".events", Position: outbox.Position{Log: 1, Commit: 5}, Group: "g"}
				r.ParkWhole(sourcetest.Dead("kafka", m, true))
				mysqltest.Equal(t, "view", state(), "dead 15 bad")
				long := sourcetest.Retried("kafka", m, 3, 0)
				long.LastError = "ein länge\x00rer text"
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{long}})
				mysqltest.Equal(t, "view", r.Text("SELECT CONCAT_WS(' ', st, tries, CONVERT(err USING utf8mb4)) FROM events WHERE st <> 'pending'"), "retrying 3 ein länge")
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
				mysqltest.Equal(t, "row", state(), "delivered 4")
				mysqltest.Equal(t, "times", r.Text("SELECT ABS(TIMESTAMPDIFF(SECOND, done_at, UTC_TIMESTAMP())) < 60 AND ABS(TIMESTAMPDIFF(SECOND, tried_at, NOW())) < 60 FROM events WHERE st = 'delivered'"), "1")
				rows, err := r.St.Pending(r.Ctx, "", 10)
				if err != nil || len(rows.Rows) != len(c.others) {
					t.Errorf("pending: %v, %v", rows, err)
				}
				r.Exec("UPDATE events SET st = 'pending'")
				if rows, err = r.St.Pending(r.Ctx, "", 10); err != nil {
					t.Fatal(err)
				}
				found := false
				for _, ref := range rows.Rows {
					found = found || ref.ID == c.id
				}
				if !found || len(rows.Rows) != len(c.others)+1 {
					t.Errorf("pending: %q, want all and %q", rows.Rows, c.id)
				}
				// The same as plain rows, and the row is another one when its turn comes.
				row := checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position}
				mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{row}}), checkpoint.Settled{})
				mysqltest.Equal(t, "row", state(), "delivered 4")
				if c.impostor == "" {
					return
				}
				r.Exec("DELETE FROM events")
				r.Exec("INSERT INTO events (`the id`, type) VALUES (" + quote.Text(c.impostor) + ", 'T')")
				mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{row}}), checkpoint.Settled{Gone: 1})
				r.store().SkipLocked = true
				mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{row}}), checkpoint.Settled{Gone: 1})
				mysqltest.Equal(t, "row of the other id", state(), "")
			})
		})
	}
}

// TestLanesAreExact: groups that a collation would call one are lanes of their own, and bytes that are no text are a group, too.
func TestLanesAreExact(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
		groups := []string{"g", "G", "g ", " g", "ä", "a", "\u0061\u0308", "ß", "ss", "\x00", "\xff\xfe'", "\U0001F600", "\U0001F601", strings.Repeat("long", 500)}
		var ps []checkpoint.Parked
		for i, g := range groups {
			ps = append(ps, sourcetest.Head("kafka", r.Msg(i+1, g), 0), sourcetest.Follower("kafka", r.Msg(i+101, g)))
		}
		r.Park(ps...)
		loaded := r.Reopen()
		mysqltest.Equal(t, "blocked", len(loaded.Blocked), len(groups))
		ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 100, Bytes: 16 << 20})
		if err != nil || len(ps) != len(groups) {
			t.Fatalf("due: %s, %v", sourcetest.Deliveries(ps), err)
		}
		for i := range ps {
			mysqltest.Equal(t, "group", ps[i].Message.Group, groups[i])
			out := r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", ps[i].Message)}})
			mysqltest.Equal(t, "next", len(out.Next), 1)
			page, _, err := r.St.Page(r.Ctx, out.Next[0], outbox.Position{}, 10, 1<<20)
			if err != nil || len(page) != 1 || page[0].Message.Group != groups[i] {
				t.Errorf("page of group %q: %s, %v", groups[i], sourcetest.Deliveries(page), err)
			}
		}
		_, applied := r.Ask(checkpoint.VerbHold, checkpoint.Selection{Groups: []string{"g", "g "}})
		mysqltest.Equal(t, "held", sourcetest.LanesText(applied.Blocked), "/g /g ")
	})
}

// TestManyIDs: ids of different lengths and signs go in one statement, and each finds its row by the index: rows of others that are
// being written, whose ids lie between them, are in nobody's way.
func TestManyIDs(t *testing.T) {
	for typ, c := range map[string]struct{ ids, others []string }{
		"CHAR(36) CHARACTER SET ascii COLLATE ascii_bin": {[]string{"a", "c", "e e"}, []string{"b", "e"}},
		"VARCHAR(700)":                      {[]string{"a", strings.Repeat("long", 100), "b c", "ö", "'"}, []string{"b", "z", "p"}},
		"VARCHAR(100) CHARACTER SET latin1": {[]string{"a", "é", "z"}, []string{"b", "f", "ü"}},
		"VARCHAR(100) CHARACTER SET utf16":  {[]string{"a", "é", "\U0001F600"}, []string{"b", "f", "ü"}},
		"TEXT":                              {[]string{"a", "a long id that begins as another", "é"}, []string{"a long id", "b"}},
		"BIGINT":                            {[]string{"-9223372036854775808", "0", "7", "9223372036854775807"}, []string{"-1", "5"}},
		"BIGINT UNSIGNED":                   {[]string{"1", "18446744073709551615", "2"}, []string{"3", "9223372036854775808"}},
		"BINARY(16)":                        {[]string{"00000000-0000-0000-0000-000000000000", "0b0e8f6a-8a3e-4b58-9d3c-111111110000"}, []string{"00000000-0000-0000-0000-000000000001"}},
		"VARBINARY(30)":                     {[]string{"a", "a b", "\x01'"}, []string{"a a", "\x01"}},
		"DATETIME(3)":                       {[]string{"2024-02-03 04:05:06.789", "2024-02-03 04:05:08.000"}, []string{"2024-02-03 04:05:07.000"}},
	} {
		t.Run(typ, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				table, ddl := idTable(typ)
				if typ == "TEXT" {
					ddl = strings.Replace(ddl, " PRIMARY KEY", ", KEY (`the id`(20))", 1)
				}
				table.OnDelivered = outbox.Delete
				r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
				r.Open()
				literal := func(id string) string {
					b, err := r.store().tables.Order[0].ID.Literal(nil, id)
					if err != nil {
						t.Fatal(err)
					}
					return string(b)
				}
				var rows []checkpoint.Row
				for i, id := range c.ids {
					r.Exec("INSERT INTO events (`the id`, type) VALUES (" + literal(id) + ", 'T')")
					rows = append(rows, checkpoint.Row{Table: r.DB + ".events", ID: id, Position: outbox.Position{Log: 1, Commit: 1, N: uint32(i)}})
				}
				writer := r.Connect()
				if err := writer.Begin(); err != nil {
					t.Fatal(err)
				}
				for _, id := range c.others {
					if _, err := writer.Execute("INSERT INTO events (`the id`, type) VALUES (" + literal(id) + ", 'T')"); err != nil {
						t.Fatal(err)
					}
				}
				mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: rows}), checkpoint.Settled{})
				r.neverWaited()
				if err := writer.Commit(); err != nil {
					t.Fatal(err)
				}
				mysqltest.Equal(t, "rows left", r.Text("SELECT COUNT(*) FROM events"), strconv.Itoa(len(c.others)))
			})
		})
	}
}

// neverWaited holds that no settlement was begun anew, as it is when a lock was waited for in vain.
func (r *storeRig) neverWaited() {
	r.T.Helper()
	rows, err := r.store().Conn.Texts(r.Ctx, "SHOW SESSION STATUS LIKE 'Com_rollback'")
	if err != nil || rows[0][1] != "0" {
		r.T.Errorf("settlements begun anew: %v, %v: rows of others were waited for", rows, err)
	}
}

// TestRowsOfOthersInASmallTable: while a table holds little beside what is to be deleted, nobody reads all of it.
func TestRowsOfOthersInASmallTable(t *testing.T) {
	for _, c := range []struct {
		name, typ, ddl string
		ids            int
	}{
		{"number", "BIGINT", "", 250},
		{"text", "VARCHAR(36)", "", 250},
		{"exact text", "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin", "", 50},
		{"unique text", "VARCHAR(36)", "ALTER TABLE events DROP PRIMARY KEY, ADD n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, ADD UNIQUE (`the id`)", 50},
		{"text with an index", "VARCHAR(36)", "ALTER TABLE events DROP PRIMARY KEY, ADD n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, ADD KEY (`the id`)", 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				table, ddl := idTable(c.typ)
				table.OnDelivered = outbox.Delete
				r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
				if c.ddl != "" {
					r.Exec(c.ddl)
				}
				r.Open()
				writer := r.Connect()
				for round := range 2 {
					var rows []checkpoint.Row
					var values []string
					for i := range c.ids {
						id := strconv.Itoa(1000*round + 2*i)
						values = append(values, "('"+id+"', 'T')")
						rows = append(rows, checkpoint.Row{Table: r.DB + ".events", ID: id, Position: outbox.Position{Log: 1, Commit: uint64(round + 1), N: uint32(i)}})
					}
					r.Exec("INSERT INTO events (`the id`, type) VALUES " + strings.Join(values, ","))
					if _, err := writer.Execute("ANALYZE TABLE events"); err != nil { // the server knows how small it is
						t.Fatal(err)
					}
					if err := writer.Begin(); err != nil {
						t.Fatal(err)
					}
					if _, err := writer.Execute("INSERT INTO events (`the id`, type) VALUES ('" + strconv.Itoa(1000*round+5) + "', 'T')"); err != nil {
						t.Fatal(err)
					}
					mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: rows}), checkpoint.Settled{})
					r.neverWaited()
					if err := writer.Commit(); err != nil {
						t.Fatal(err)
					}
				}
				mysqltest.Equal(t, "rows left", r.Text("SELECT COUNT(*) FROM events"), "2")
			})
		})
	}
}

// TestIDsOfAnotherTime: what the column cannot hold any more is no row's id, whatever the server makes of it.
func TestIDsOfAnotherTime(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table, ddl := idTable("CHAR(8) CHARACTER SET latin1 COLLATE latin1_bin")
		table.OnDelivered = outbox.Delete
		r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
		r.Open()
		r.Exec("INSERT INTO events (`the id`, type) VALUES ('?', 'T'), ('a', 'T')")
		var rows []checkpoint.Row
		for i, id := range []string{"\U0001F600", "a "} {
			rows = append(rows, checkpoint.Row{Table: r.DB + ".events", ID: id, Position: outbox.Position{Log: 1, Commit: 1, N: uint32(i)}})
		}
		mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: rows}), checkpoint.Settled{Gone: 2})
		mysqltest.Equal(t, "rows left", r.Text("SELECT COUNT(*) FROM events"), "2")
	})
}

// TestTriggerWithoutKey: what a trigger of the outbox table does is not held to the keys that deletions are held to.
func TestTriggerWithoutKey(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table, ddl := idTable("BIGINT")
		table.OnDelivered = outbox.Delete
		r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl, "CREATE TABLE tally (n INT)", "INSERT INTO tally VALUES (0)",
			"CREATE TRIGGER tallied AFTER DELETE ON events FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; UPDATE tally SET n = n + 1; END"), table)
		r.Open()
		for n := range 3 {
			id := strconv.Itoa(n)
			r.Exec("INSERT INTO events (`the id`, type) VALUES (" + id + ", 'T')")
			row := checkpoint.Row{Table: r.DB + ".events", ID: id, Position: outbox.Position{Log: 1, Commit: uint64(n + 1)}}
			mysqltest.Equal(t, "settled", *r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{row}}), checkpoint.Settled{})
			mysqltest.Equal(t, "tally", r.Text("SELECT n FROM tally"), strconv.Itoa(n+1))
		}
	})
}

// TestTypesThatAreNoIDs: a column by which rows cannot be found again is refused.
func TestTypesThatAreNoIDs(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for _, typ := range []string{"BIT(64)", "FLOAT", "DOUBLE", "INET6"} {
			if typ == "INET6" && my.Kind != server.KindMariaDB {
				continue
			}
			table, ddl := idTable(typ)
			r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl), table)
			if st, err := openStore(r.Ctx, r.Cfg); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "whole number") {
				t.Errorf("%s: store %v, %v", typ, st, err)
			}
			if findings, err := setup.Check(r.Ctx, r.Cfg); err != nil || !strings.Contains(fmt.Sprint(findings), "whole number") || mysqltest.CountProblems(findings) == 0 {
				t.Errorf("%s: check: %v, %v", typ, findings, err)
			}
		}
	})
}

// TestFoundInOrder: what a comparison found comes in the order in which it was written, also where each id is looked up on its own.
func TestFoundInOrder(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for _, typ := range []string{"DECIMAL(12,2)", "VARCHAR(40)"} {
			table, ddl := idTable(typ)
			table.Columns.CreatedAt = "made_at"
			r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl, "ALTER TABLE events ADD made_at DATETIME(6)"), table)
			r.Open()
			var refs []checkpoint.RowRef
			for i, id := range []string{"2.00", "10.00", "1.50"} {
				r.Exec("INSERT INTO events (`the id`, type, made_at) VALUES (" + id + ", 'T', TIMESTAMP('2026-01-01') + INTERVAL " + strconv.Itoa(10*i) + " SECOND)")
				refs = append([]checkpoint.RowRef{{Table: r.DB + ".events", ID: id}}, refs...)
			}
			ms, _, err := r.St.Fetch(r.Ctx, refs, outbox.Position{Log: 1, Commit: 5}, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range ms {
				got = append(got, m.ID)
			}
			mysqltest.Equal(t, typ, strings.Join(got, " "), "2.00 10.00 1.50")
		}
	})
}

// TestQuotesAndBackslashes: ids and texts are what they are, and a table whose own definition has a quote in it can be read and written.
func TestQuotesAndBackslashes(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table, ddl := idTable("VARCHAR(40)")
		r := newBareRig(t, my, append(mysqltest.RelayTables(), ddl, "ALTER TABLE events ADD CONSTRAINT quoted CHECK (type <> 'it''s')"), table)
		r.Open()
		ids := []string{`a'b`, `a\`, `\'`, `\\`, `a\n`, "a\n", `%_`}
		var rows []checkpoint.Row
		for i, id := range ids {
			r.Exec("INSERT INTO events (`the id`, type) VALUES (?, 'T')", id)
			m := r.Msg(i, "g")
			m.ID, m.Table = id, r.DB+".events"
			rows = append(rows, sourcetest.RowOf(m, false))
		}
		pending, err := r.St.Pending(r.Ctx, "", 10)
		if err != nil || len(pending.Rows) != len(ids) {
			t.Fatalf("pending: %+v, %v", pending, err)
		}
		for _, p := range pending.Rows {
			if !slices.Contains(ids, p.ID) {
				t.Errorf("pending: id %q", p.ID)
			}
		}
		d := sourcetest.Dead("kafka", &outbox.Message{ID: ids[1], Table: r.DB + ".events", Type: "T", Group: `it's\`, Position: outbox.Position{Log: 1, Commit: 9}}, true)
		d.LastError = `\'`
		r.Settle(checkpoint.Settlement{Rows: rows[2:]})
		mysqltest.Equal(t, "settled", r.Text("SELECT COUNT(*) FROM events WHERE st = 'delivered'"), strconv.Itoa(len(ids)-2))
		r.ParkWhole(d)
		mysqltest.Equal(t, "the dead row's error", r.Text("SELECT err FROM events WHERE st = 'dead'"), `\'`)
		mysqltest.Equal(t, "the parked group", r.Text("SELECT message_group FROM tailbox_parked"), `it's\`)
		if findings, err := setup.Check(r.Ctx, r.Cfg); err != nil || strings.Contains(fmt.Sprint(findings), "quoted") {
			t.Errorf("check: %v, %v", findings, err)
		}
	})
}
