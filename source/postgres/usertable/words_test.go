package usertable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// ownTable is a table of somebody, whose status is of some type.
func ownTable(words outbox.Words) outbox.Table {
	return outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: words, Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload",
		Status: "st", Failures: "tries", NextAttemptAt: "due", LastError: "err", DeliveredAt: "done", LastAttemptAt: "tried", UpdatedAt: "changed"}}
}

const ownTableSQL = `id bigint PRIMARY KEY, type text, payload text, tries smallint NOT NULL DEFAULT 0, due timestamp NOT NULL DEFAULT '2000-01-01',
	err varchar(4) NOT NULL DEFAULT '', done timestamp, tried timestamp, changed timestamp)`

// Words are values of the status column, of whatever type it is; what it cannot hold is told before anything is written.
func TestWordsFit(t *testing.T) {
	t.Parallel()
	numbers := outbox.Words{Pending: "0", Delivered: "1", Retrying: "2", Waiting: "0", Dead: "-9"}
	for _, c := range []struct {
		typ   string
		words outbox.Words
		want  string // what an error has; "" = there is none
	}{
		{"smallint NOT NULL DEFAULT 0", numbers, ""},
		{"numeric DEFAULT 0", numbers, ""},
		{"varchar(2) DEFAULT '0'", numbers, ""},
		{"char(20) DEFAULT 'pending'", outbox.DefaultWords(), ""},
		{"state NOT NULL DEFAULT 'pending'", outbox.DefaultWords(), ""},
		{"integer DEFAULT 0", outbox.DefaultWords(), `status column st is of type integer, which has no value "pending" for pending messages: set words.pending`},
		{"state DEFAULT 'pending'", outbox.Words{Pending: "pending", Delivered: "delivered", Retrying: "again", Waiting: "waiting", Dead: "dead"}, `no value "again" for retrying messages`},
		{"varchar(8) DEFAULT 'pending'", outbox.DefaultWords(), `makes "delivere" of the word "delivered" for delivered messages`},
		{"boolean DEFAULT false", numbers, `is a boolean: set words to`},
		{"boolean NOT NULL DEFAULT false", outbox.Words{Pending: "false", Delivered: "true", Retrying: "false", Waiting: "false", Dead: "false"}, ""},
	} {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			r := &pgtest.StoreRig{Ctx: t.Context(), Rig: pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TYPE state AS ENUM ('pending', 'delivered', 'retrying', 'waiting', 'dead');;"+
				"CREATE TABLE events (st "+c.typ+", "+ownTableSQL+";;"+migrate.TablesIn("").Script(), ownTable(c.words))}
			if _, err := setup.Init(r.Ctx, r.Cfg); c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("init: %v, want %q", err, c.want)
			}
			findings, err := setup.Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			if problems := pgtest.Levels(findings, check.Problem); strings.Contains(problems, "status column") != (c.want != "") || !strings.Contains(problems, c.want) {
				t.Errorf("check: %s, want %q", problems, c.want)
			}
			if c.want != "" {
				st, err := pgstore.Open(r.Ctx, r.Cfg)
				if err == nil {
					_ = st.Close(r.Ctx)
				}
				if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("open: %v, want %q", err, c.want)
				}
				return
			}
			r.Open()
			r.Exec("SET timezone = 'Asia/Kathmandu'")
			r.Exec("INSERT INTO events (id, type) VALUES (1, 'T'), (2, 'T'), (3, 'T')")
			show := func(id int) string {
				return r.Text(`SELECT concat_ws(' ', trim(st::text), tries, err, date_part('year', due) > 2000, abs(extract(epoch FROM done - now() AT TIME ZONE 'UTC')) < 600,
					abs(extract(epoch FROM tried - now() AT TIME ZONE 'UTC')) < 600, abs(extract(epoch FROM changed - now() AT TIME ZONE 'UTC')) < 600) FROM events WHERE id = $1`, id)
			}
			m := &outbox.Message{ID: "2", Table: "public.events", Position: outbox.Position{Log: 1, Commit: 9}, Group: "g"}
			r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "public.events", ID: "1", Position: outbox.Position{Log: 1, Commit: 1}}}})
			pgtest.Equal(t, "delivered", show(1), c.words.Delivered+" 0  f t t t")
			r.ParkWhole(sourcetest.Dead("kafka", m, true))
			pgtest.Equal(t, "dead", show(2), c.words.Dead+" 15 bad f t t")
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 3, 60e9)}})
			pgtest.Equal(t, "retrying", r.Text("SELECT concat_ws(' ', trim(st::text), tries, date_part('year', due) > 2000) FROM events WHERE id = 2"), c.words.Retrying+" 3 t")
			r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
			if got := show(2); !strings.HasPrefix(got, c.words.Delivered+" ") || !strings.HasSuffix(got, " t t t t") {
				t.Errorf("delivered at last: %s", got)
			}
			conn, err := r.Cfg.Connect(r.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close(r.Ctx, conn) }()
			table, err := usertable.Resolve(r.Ctx, conn, r.Cfg.Tables[0])
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Equal(t, "pending", r.Text("SELECT count(*)::text FROM events t WHERE "+table.Pending("t.")), "1")
		})
	}
}

// Every shape's tables are what the relay expects, and can be made twice.
func TestShapesAreMade(t *testing.T) {
	t.Parallel()
	for _, s := range outbox.Shapes() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var tables []outbox.Table
			for _, name := range append(s.Tables, "another") {
				table := s.Table(name)
				table.Schema = "public"
				tables = append(tables, table)
			}
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), tables...)
			for range 2 {
				if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
					t.Fatal(err)
				}
			}
			for i := range tables {
				sql, err := ddl.Script(&tables[i])
				if err != nil {
					t.Fatal(err)
				}
				r.Exec(sql)
			}
			findings, err := setup.Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.Level == check.Problem && !strings.Contains(f.What, "slot") || strings.Contains(f.What, "index") {
					t.Errorf("check: %+v", f)
				}
			}
			r.Exec("DROP TABLE another")
		})
	}
	if _, err := ddl.Script(&outbox.Table{Name: "x", Shape: "another"}); err == nil {
		t.Error("a table of an unknown shape is made")
	}
}
