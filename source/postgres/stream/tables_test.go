package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

func TestTableAlteredWhileRunning(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p')")
	r.Exec("ALTER TABLE a ADD tenant text, ADD other int, DROP message_group")
	r.Exec("INSERT INTO a (id, type, payload, tenant) VALUES ('2', 't', 'p', 'me')")
	r.Exec("ALTER TABLE a ALTER payload TYPE bytea USING payload::bytea, ALTER id TYPE varchar(10)")
	r.Exec("INSERT INTO a (id, type, payload, tenant) VALUES ('3', 't', '\\x00', 'me')")
	ms, _ := x.Messages(3)
	if ms[0].Tenant != "" || ms[1].Tenant != "me" || ms[2].Tenant != "me" || string(ms[1].Payload) != "p" || string(ms[2].Payload) != "\x00" {
		t.Errorf("got %+v", ms)
	}
	r.Exec("BEGIN")
	r.Exec("INSERT INTO a (id, type, payload) VALUES ('4', 't', 'x')")
	r.Exec("ALTER TABLE a DROP payload")
	r.Exec("INSERT INTO a (id, type) VALUES ('5', 't')")
	r.Exec("COMMIT")
	x.Fails(source.ErrStop, "no column payload")
}

func TestColumnTypeWithoutBinaryForm(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	x := r.Run(source.Start{From: from})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x.Messages(1)
	r.Exec("ALTER TABLE a ALTER message_group TYPE numeric USING 1.50")
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 2.50)")
	if err := x.Wait(); err == nil || errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrGap) {
		t.Fatalf("Run returned %v, want an error that a restart heals", err)
	}
	ms, _ := r.Run(source.Start{From: from}).Messages(2)
	if ms[0].Group != "g" || ms[1].Group != "2.50" {
		t.Errorf("groups %q %q", ms[0].Group, ms[1].Group)
	}
}

// A column of no interest whose values the server cannot send in binary form ends a stream once, and not for ever.
func TestOtherColumnWithoutBinaryForm(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	from := r.Establish()
	r.Exec("ALTER TABLE a ADD acl aclitem[]")
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g', ARRAY['=r/postgres'::aclitem])")
	if err := r.Run(source.Start{From: from}).Wait(); err == nil || errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrGap) {
		t.Fatalf("Run returned %v, want an error that a restart heals", err)
	}
	if ms, _ := r.Run(source.Start{From: from}).Messages(1); ms[0].ID != "1" {
		t.Errorf("got %+v", ms[0])
	}
}

func TestTableRenamedWhileRunning(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	_, resume := x.Messages(1)
	r.Exec("ALTER TABLE a RENAME TO b")
	r.Exec("INSERT INTO b VALUES ('2', 't', 'p', 'g')")
	x.Fails(source.ErrStop, `"public"."a"`)
	r.Run(source.Start{From: resume}).Fails(source.ErrStop, `"public"."a"`)
	// Renamed back, or configured under the name it had then, it goes on where it was.
	r.Exec("ALTER TABLE b RENAME TO a")
	ms, _ := r.Run(source.Start{From: resume}).Messages(1)
	if ms[0].ID != "2" || ms[0].Table != "public.a" {
		t.Errorf("got %+v", ms[0])
	}
}

func TestTableReplacedWhileRunning(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	x.Messages(1)
	r.Exec("ALTER TABLE a RENAME TO b")
	r.Exec(pgtest.SmallDDL)
	r.Exec("ALTER PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " ADD TABLE a")
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
	if ms, _ := x.Messages(1); ms[0].ID != "2" {
		t.Errorf("got %s", ms[0].ID)
	}
	r.Exec("INSERT INTO b VALUES ('3', 't', 'p', 'g')")
	x.Fails(source.ErrStop, "rename it back")
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
			r := pgtest.NewRig(t, servers.Shared(t, "16"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
			r.Src.SetCheckEvery(50 * time.Millisecond)
			x := r.Run(source.Start{From: r.Establish()})
			r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			_, resume := x.Messages(1)
			sql := strings.ReplaceAll(test.sql, "%PUB%", sqltext.Ident(r.Cfg.Publication))
			if test.name == "unlogged" {
				// A published table cannot be made unlogged.
				r.Exec("ALTER PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " DROP TABLE a")
			}
			r.Exec(sql)
			x.Fails(source.ErrStop, test.text)
			r.Run(source.Start{From: resume}).Fails(source.ErrStop, test.text)
		})
	}
}

func TestPublicationMadeAnew(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, version), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
			from := r.Establish()
			pub := sqltext.Ident(r.Cfg.Publication)
			r.Exec("DROP PUBLICATION " + pub)
			r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			r.Exec("CREATE PUBLICATION " + pub + " FOR TABLE a WITH (publish = 'insert')")
			r.Exec("INSERT INTO a VALUES ('2', 't', 'p', 'g')")
			// The log cannot tell of row 1: a sweep has to.
			r.Run(source.Start{From: from}).Fails(source.ErrGap, r.Cfg.Publication)
		})
	}
}

func TestPartitionedTable(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), `CREATE TABLE a (id int, type text, payload text, message_group text) PARTITION BY RANGE (id);;
		CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);; CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);;
		CREATE TABLE a21 (payload text, extra int, type text, id int NOT NULL, message_group text);; ALTER TABLE a21 DROP extra;;
		ALTER TABLE a2 ATTACH PARTITION a21 FOR VALUES FROM (10) TO (20)`, pgtest.Shape("tailbox", "a"))
	x := r.Run(source.Start{From: r.Establish()})
	insert := func(ids ...string) {
		for _, id := range ids {
			r.Exec("INSERT INTO a VALUES ($1, 't', 'p', 'g')", id)
		}
	}
	insert("1", "12")
	r.Exec("CREATE TABLE a3 PARTITION OF a FOR VALUES FROM (20) TO (30)")
	insert("22")
	r.Exec("ALTER TABLE a DETACH PARTITION a1")
	insert("13")
	ms, resume := x.Messages(4)
	if got := pgtest.IDs(ms); got != "1 12 22 13" {
		t.Errorf("got %s", got)
	}
	for _, m := range ms {
		if m.Table != "public.a" || m.Group != "g" {
			t.Errorf("got %+v", m)
		}
	}
	pub := sqltext.Ident(r.Cfg.Publication)
	r.Exec("ALTER PUBLICATION " + pub + " SET (publish_via_partition_root = false)")
	insert("14", "23")
	// Rows that the log names by their partition are the table's rows.
	if ms, _ = x.Messages(2); pgtest.IDs(ms) != "14 23" || ms[0].Table != "public.a" {
		t.Errorf("got %s of %s", pgtest.IDs(ms), ms[0].Table)
	}
	r.Exec("CREATE TABLE a4 PARTITION OF a FOR VALUES FROM (30) TO (40)")
	insert("33")
	x.Fails(source.ErrStop, "publish_via_partition_root = true")
	r.Run(source.Start{From: resume}).Fails(source.ErrStop, "publish_via_partition_root = true")
	r.Exec("ALTER PUBLICATION " + pub + " SET (publish_via_partition_root = true)")
	insert("34")
	if ms, _ = r.Run(source.Start{From: resume}).Messages(4); pgtest.IDs(ms) != "14 23 33 34" {
		t.Errorf("got %s", pgtest.IDs(ms))
	}
}

func TestSeveralTablesAndOthers(t *testing.T) {
	t.Parallel()
	odd := pgtest.Shape("tailbox", `Ta'b"le`)
	odd.Schema = "O dd"
	b := pgtest.Shape("debezium", "b")
	b.Schema = "" // found by the search path
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL+`;; CREATE TABLE b (id int, aggregatetype text, aggregateid text, type text, payload text);;
		CREATE TABLE c (id int PRIMARY KEY);; CREATE SCHEMA "O dd";; CREATE TABLE "O dd"."Ta'b""le" (id int, type text, payload text)`,
		pgtest.Shape("tailbox", "a"), b, odd)
	pub := sqltext.Ident(r.Cfg.Publication)
	r.Exec("ALTER PUBLICATION " + pub + " ADD TABLE c")
	r.Exec("ALTER PUBLICATION " + pub + " SET (publish = 'insert, update, delete, truncate')")
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("BEGIN")
	r.Exec("INSERT INTO c VALUES (1)")
	r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
	r.Exec("INSERT INTO c VALUES (2), (3)")
	r.Exec("UPDATE c SET id = id + 10")
	r.Exec("DELETE FROM a")
	r.Exec("INSERT INTO b VALUES (2, 'x', 'y', 't', 'p')")
	r.Exec("COMMIT")
	r.Exec("TRUNCATE c")
	r.Exec(`INSERT INTO "O dd"."Ta'b""le" VALUES (3, 't', 'p')`)
	ms, _ := x.Messages(3)
	for i, want := range []struct {
		table, group string
		n            uint32
	}{{"public.a", "g", 1}, {"public.b", "x:y", 4}, {`O dd.Ta'b"le`, "", 0}} {
		if m := ms[i]; m.Table != want.table || m.Group != want.group || m.Position.N != want.n {
			t.Errorf("message %d: %s of %s, group %q, position %s", i, m.ID, m.Table, m.Group, m.Position)
		}
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for why, n := range map[string]int{"table": 3, "update": 3, "delete": 1, "truncate": 1} {
		if r.Ignored[why] != n {
			t.Errorf("ignored %v", r.Ignored)
		}
	}
}

func TestMissingMandatoryColumn(t *testing.T) {
	t.Parallel()
	override := pgtest.Shape("tailbox", "a")
	override.Columns.Tenant = "owner"
	debezium := pgtest.Shape("debezium", "a")
	field := pgtest.Shape("tailbox", "a")
	field.Fields = []string{"nothing"}
	for name, test := range map[string]struct {
		table  outbox.Table
		column string
	}{"override": {override, "owner"}, "group": {debezium, "aggregatetype"}, "field": {field, "nothing"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, test.table)
			x := r.Run(source.Start{From: r.Establish()})
			r.Exec("INSERT INTO a VALUES ('1', 't', 'p', 'g')")
			x.Fails(source.ErrStop, test.column)
		})
	}
}

func TestEstablishNeedsThePublication(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.SmallDDL, pgtest.Shape("tailbox", "a"))
	r.Exec("DROP PUBLICATION " + sqltext.Ident(r.Cfg.Publication))
	if _, err := r.Src.Establish(context.Background()); !errors.Is(err, source.ErrStop) {
		t.Errorf("Establish returned %v", err)
	}
}

// A generated column is not in the log, however long one waits: what would be a message without it is refused before the first row comes.
func TestGeneratedColumn(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, version), "CREATE TABLE a (id text PRIMARY KEY, type text, source text, payload text)", pgtest.Shape("tailbox", "a"))
			from := r.Establish()
			for _, column := range []string{"payload", "message_group"} {
				r.Exec("ALTER TABLE a DROP IF EXISTS payload, DROP IF EXISTS message_group")
				r.Exec("ALTER TABLE a ADD " + column + " text GENERATED ALWAYS AS (upper(source)) STORED")
				if column != "payload" {
					r.Exec("ALTER TABLE a ADD payload text")
				}
				want := "column " + column
				r.Run(source.Start{From: from}).Fails(source.ErrStop, want+" is generated")
				if _, err := r.Src.Establish(t.Context()); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), want) {
					t.Errorf("establish: %v", err)
				}
				findings, err := setup.Check(t.Context(), r.Cfg)
				if problems := pgtest.Levels(findings, check.Problem); err != nil || strings.Count(problems, want+" of table public.a is generated") != 1 || strings.Contains(problems, "leaves out") {
					t.Errorf("check: %v, %s", err, problems)
				}
			}
			if version == "17" {
				return
			}
			r.Exec("ALTER PUBLICATION " + sqltext.Ident(r.Cfg.Publication) + " SET (publish_generated_columns = stored)")
			x := r.Run(source.Start{From: r.Establish()})
			r.Exec("INSERT INTO a VALUES ('2', 't', 'p')")
			if ms, _ := x.Messages(1); ms[0].Group != "P" {
				t.Errorf("group %q", ms[0].Group)
			}
		})
	}
}
