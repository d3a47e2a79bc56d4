package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

const smallDDL = "CREATE TABLE a (id text PRIMARY KEY, type text, payload text, message_group text)"

func TestTableAlteredWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p')")
	r.exec("ALTER TABLE a ADD tenant text, ADD other int, DROP message_group")
	r.exec("INSERT INTO a (id, type, payload, tenant) VALUES ('2', 't', 'p', 'me')")
	r.exec("ALTER TABLE a ALTER payload TYPE bytea USING payload::bytea, ALTER id TYPE varchar(10)")
	r.exec("INSERT INTO a (id, type, payload, tenant) VALUES ('3', 't', '\\x00', 'me')")
	ms, _ := x.messages(3)
	if ms[0].Tenant != "" || ms[1].Tenant != "me" || ms[2].Tenant != "me" || string(ms[1].Payload) != "p" || string(ms[2].Payload) != "\x00" {
		t.Errorf("got %+v", ms)
	}
	r.exec("BEGIN")
	r.exec("INSERT INTO a (id, type, payload) VALUES ('4', 't', 'x')")
	r.exec("ALTER TABLE a DROP payload")
	r.exec("INSERT INTO a (id, type) VALUES ('5', 't')")
	r.exec("COMMIT")
	x.fails(source.ErrStop, "no column payload")
}

func TestColumnTypeWithoutBinaryForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	x := r.run(source.Start{From: from})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x.messages(1)
	r.exec("ALTER TABLE a ALTER message_group TYPE numeric USING 1.50")
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 2.50)")
	if err := x.wait(); err == nil || errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrGap) {
		t.Fatalf("Run returned %v, want an error that a restart heals", err)
	}
	ms, _ := r.run(source.Start{From: from}).messages(2)
	if ms[0].Group != "g" || ms[1].Group != "2.50" {
		t.Errorf("groups %q %q", ms[0].Group, ms[1].Group)
	}
}

// A column of no interest whose values the server cannot send in binary form ends a stream once, and not for ever.
func TestOtherColumnWithoutBinaryForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	from := r.establish()
	r.exec("ALTER TABLE a ADD acl aclitem[]")
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g', ARRAY['=r/postgres'::aclitem])")
	if err := r.run(source.Start{From: from}).wait(); err == nil || errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrGap) {
		t.Fatalf("Run returned %v, want an error that a restart heals", err)
	}
	if ms, _ := r.run(source.Start{From: from}).messages(1); ms[0].ID != "1" {
		t.Errorf("got %+v", ms[0])
	}
}

// Servers speak many languages, and a file that is not there may be another than a piece of the log.
func TestErrorsInOtherWords(t *testing.T) {
	t.Parallel()
	st := &stream{cfg: &Config{Publication: "tailbox_shop"}}
	for _, n := range []*pgconn.PgError{{Code: "55000", Message: "Laden der Publikation »tailbox_shop« wurde übersprungen"},
		{Code: "55000", Message: "omis", Routine: "LoadPublications"}} {
		if err := st.notice(n); !errors.Is(err, source.ErrGap) {
			t.Errorf("notice %q: %v, want a gap", n.Message, err)
		}
	}
	for message, gap := range map[string]bool{"das angeforderte WAL-Segment 000000010000000000000003 wurde schon entfernt": true,
		`could not access file "pgoutput": No such file or directory`: false} {
		if err := st.cfg.streamError(&pgconn.PgError{Code: "58P01", Message: message}); errors.Is(err, source.ErrGap) != gap {
			t.Errorf("%s: %v, want a gap: %v", message, err, gap)
		}
	}
}

// A row that the server cannot put into one message will never come, however often the log is read: it is found by a sweep.
func TestRowTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	c := &Config{}
	for _, e := range []struct {
		code, message string
		gap           bool
	}{{"54000", "out of memory", true}, {"XX000", "invalid memory alloc request size 1258291203", true}, {"XX000", "cache lookup failed for type 5", false},
		{"53200", "out of memory", false}} {
		if err := c.streamError(&pgconn.PgError{Code: e.code, Message: e.message}); errors.Is(err, source.ErrGap) != e.gap || errors.Is(err, source.ErrStop) {
			t.Errorf("%s %s: %v, want a gap: %v", e.code, e.message, err, e.gap)
		}
	}
}

func TestTableRenamedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.messages(1)
	r.exec("ALTER TABLE a RENAME TO b")
	r.exec("INSERT INTO b VALUES ('2', 't', 'p', 'g')")
	x.fails(source.ErrStop, `"public"."a"`)
	r.run(source.Start{From: resume}).fails(source.ErrStop, `"public"."a"`)
	// Renamed back, or configured under the name it had then, it goes on where it was.
	r.exec("ALTER TABLE b RENAME TO a")
	ms, _ := r.run(source.Start{From: resume}).messages(1)
	if ms[0].ID != "2" || ms[0].Table != "public.a" {
		t.Errorf("got %+v", ms[0])
	}
}

func TestTableReplacedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x.messages(1)
	r.exec("ALTER TABLE a RENAME TO b")
	r.exec(smallDDL)
	r.exec("ALTER PUBLICATION " + quoteIdent(r.cfg.Publication) + " ADD TABLE a")
	r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if ms, _ := x.messages(1); ms[0].ID != "2" {
		t.Errorf("got %s", ms[0].ID)
	}
	r.exec("INSERT INTO b VALUES ('3', 't', 'p', 'g')")
	x.fails(source.ErrStop, "rename it back")
}

func TestTableDroppedIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, sql, text string }{
		{"table", "DROP TABLE a", "does not exist"},
		{"removed", "ALTER PUBLICATION %PUB% DROP TABLE a", "ADD TABLE"},
		{"publication", "DROP PUBLICATION %PUB%", "tailbox init"},
		{"inserts", "ALTER PUBLICATION %PUB% SET (publish = 'update')", "publish = 'insert'"},
		{"unlogged", "ALTER TABLE a SET UNLOGGED", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, "16"), smallDDL, shape("tailbox", "a"))
			r.src.checkEvery = 50 * time.Millisecond
			x := r.run(source.Start{From: r.establish()})
			r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			_, resume := x.messages(1)
			sql := strings.ReplaceAll(test.sql, "%PUB%", quoteIdent(r.cfg.Publication))
			if test.name == "unlogged" {
				// A published table cannot be made unlogged.
				r.exec("ALTER PUBLICATION " + quoteIdent(r.cfg.Publication) + " DROP TABLE a")
			}
			r.exec(sql)
			x.fails(source.ErrStop, test.text)
			r.run(source.Start{From: resume}).fails(source.ErrStop, test.text)
		})
	}
}

func TestPublicationMadeAnew(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, version), smallDDL, shape("tailbox", "a"))
			from := r.establish()
			pub := quoteIdent(r.cfg.Publication)
			r.exec("DROP PUBLICATION " + pub)
			r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			r.exec("CREATE PUBLICATION " + pub + " FOR TABLE a WITH (publish = 'insert')")
			r.exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
			// The log cannot tell of row 1: a sweep has to.
			r.run(source.Start{From: from}).fails(source.ErrGap, r.cfg.Publication)
		})
	}
}

func TestPartitionedTable(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), `CREATE TABLE a (id int, type text, payload text, message_group text) PARTITION BY RANGE (id);;
		CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);; CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);;
		CREATE TABLE a21 (payload text, extra int, type text, id int NOT NULL, message_group text);; ALTER TABLE a21 DROP extra;;
		ALTER TABLE a2 ATTACH PARTITION a21 FOR VALUES FROM (10) TO (20)`, shape("tailbox", "a"))
	x := r.run(source.Start{From: r.establish()})
	insert := func(ids ...string) {
		for _, id := range ids {
			r.exec("INSERT INTO a VALUES ($1, 't', 'p', 'g')", id)
		}
	}
	insert("1", "12")
	r.exec("CREATE TABLE a3 PARTITION OF a FOR VALUES FROM (20) TO (30)")
	insert("22")
	r.exec("ALTER TABLE a DETACH PARTITION a1")
	insert("13")
	ms, resume := x.messages(4)
	if got := ids(ms); got != "1 12 22 13" {
		t.Errorf("got %s", got)
	}
	for _, m := range ms {
		if m.Table != "public.a" || m.Group != "g" {
			t.Errorf("got %+v", m)
		}
	}
	pub := quoteIdent(r.cfg.Publication)
	r.exec("ALTER PUBLICATION " + pub + " SET (publish_via_partition_root = false)")
	insert("14", "23")
	// Rows that the log names by their partition are the table's rows.
	if ms, _ = x.messages(2); ids(ms) != "14 23" || ms[0].Table != "public.a" {
		t.Errorf("got %s of %s", ids(ms), ms[0].Table)
	}
	r.exec("CREATE TABLE a4 PARTITION OF a FOR VALUES FROM (30) TO (40)")
	insert("33")
	x.fails(source.ErrStop, "publish_via_partition_root = true")
	r.run(source.Start{From: resume}).fails(source.ErrStop, "publish_via_partition_root = true")
	r.exec("ALTER PUBLICATION " + pub + " SET (publish_via_partition_root = true)")
	insert("34")
	if ms, _ = r.run(source.Start{From: resume}).messages(4); ids(ms) != "14 23 33 34" {
		t.Errorf("got %s", ids(ms))
	}
}

func TestSeveralTablesAndOthers(t *testing.T) {
	t.Parallel()
	odd := shape("tailbox", `Ta'b"le`)
	odd.Schema = "O dd"
	b := shape("debezium", "b")
	b.Schema = "" // found by the search path
	r := newRig(t, servers.Shared(t, "17"), smallDDL+`;; CREATE TABLE b (id int, aggregatetype text, aggregateid text, type text, payload text);;
		CREATE TABLE c (id int PRIMARY KEY);; CREATE SCHEMA "O dd";; CREATE TABLE "O dd"."Ta'b""le" (id int, type text, payload text)`,
		shape("tailbox", "a"), b, odd)
	pub := quoteIdent(r.cfg.Publication)
	r.exec("ALTER PUBLICATION " + pub + " ADD TABLE c")
	r.exec("ALTER PUBLICATION " + pub + " SET (publish = 'insert, update, delete, truncate')")
	x := r.run(source.Start{From: r.establish()})
	r.exec("BEGIN")
	r.exec("INSERT INTO c VALUES (1)")
	r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.exec("INSERT INTO c VALUES (2), (3)")
	r.exec("UPDATE c SET id = id + 10")
	r.exec("DELETE FROM a")
	r.exec("INSERT INTO b VALUES (2, 'x', 'y', 't', 'p')")
	r.exec("COMMIT")
	r.exec("TRUNCATE c")
	r.exec(`INSERT INTO "O dd"."Ta'b""le" VALUES (3, 't', 'p')`)
	ms, _ := x.messages(3)
	for i, want := range []struct {
		table, group string
		n            uint32
	}{{"public.a", "g", 1}, {"public.b", "x:y", 4}, {`O dd.Ta'b"le`, "", 0}} {
		if m := ms[i]; m.Table != want.table || m.Group != want.group || m.Position.N != want.n {
			t.Errorf("message %d: %s of %s, group %q, position %s", i, m.ID, m.Table, m.Group, m.Position)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for why, n := range map[string]int{"table": 3, "update": 3, "delete": 1, "truncate": 1} {
		if r.ignored[why] != n {
			t.Errorf("ignored %v", r.ignored)
		}
	}
}

func TestMissingMandatoryColumn(t *testing.T) {
	t.Parallel()
	override := shape("tailbox", "a")
	override.Columns.Tenant = "owner"
	debezium := shape("debezium", "a")
	field := shape("tailbox", "a")
	field.Fields = []string{"nothing"}
	for name, test := range map[string]struct {
		table  outbox.Table
		column string
	}{"override": {override, "owner"}, "group": {debezium, "aggregatetype"}, "field": {field, "nothing"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, "17"), smallDDL, test.table)
			x := r.run(source.Start{From: r.establish()})
			r.exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			x.fails(source.ErrStop, test.column)
		})
	}
}

func TestEstablishNeedsThePublication(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), smallDDL, shape("tailbox", "a"))
	r.exec("DROP PUBLICATION " + quoteIdent(r.cfg.Publication))
	if _, err := r.src.Establish(context.Background()); !errors.Is(err, source.ErrStop) {
		t.Errorf("Establish returned %v", err)
	}
}

// A generated column is not in the log, however long one waits: what would be a message without it is refused before the first row comes.
func TestGeneratedColumn(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, version), "CREATE TABLE a (id text PRIMARY KEY, type text, source text, payload text)", shape("tailbox", "a"))
			from := r.establish()
			for _, column := range []string{"payload", "message_group"} {
				r.exec("ALTER TABLE a DROP IF EXISTS payload, DROP IF EXISTS message_group")
				r.exec("ALTER TABLE a ADD " + column + " text GENERATED ALWAYS AS (upper(source)) STORED")
				if column != "payload" {
					r.exec("ALTER TABLE a ADD payload text")
				}
				want := "column " + column
				r.run(source.Start{From: from}).fails(source.ErrStop, want+" is generated")
				if _, err := r.src.Establish(t.Context()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), want) {
					t.Errorf("establish: %v", err)
				}
				findings, err := r.cfg.Check(t.Context())
				if problems := levels(findings, Problem); err != nil || strings.Count(problems, want+" of table public.a is generated") != 1 || strings.Contains(problems, "leaves out") {
					t.Errorf("check: %v, %s", err, problems)
				}
			}
			if version == "17" {
				return
			}
			r.exec("ALTER PUBLICATION " + quoteIdent(r.cfg.Publication) + " SET (publish_generated_columns = stored)")
			x := r.run(source.Start{From: r.establish()})
			r.exec("INSERT INTO a VALUES ('2', 't', 'p')")
			if ms, _ := x.messages(1); ms[0].Group != "P" {
				t.Errorf("group %q", ms[0].Group)
			}
		})
	}
}
