package usertable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// A column by whose values rows cannot be found again is no id: check, init and run say so before anything is created or read. By any other
// type rows are found.
func TestTypesOfIDs(t *testing.T) {
	t.Parallel()
	const before = "CREATE TYPE pair AS (a int, b text); CREATE DOMAIN pairs AS pair; CREATE TYPE mood AS ENUM ('1'); CREATE DOMAIN code AS varchar(10); CREATE EXTENSION citext; "
	for typ, value := range map[string]string{"int[]": "", "pair": "", "pairs": "", "json": "", "xml": "", "point": "", "uuid": "00000000-0000-0000-0000-000000000001", "code": "1", "citext": "Ab",
		"mood": "1", "numeric(5,2)": "1.50", "date": "2024-02-03", "inet": "10.0.0.1", "bytea": `\x01`, "int4range": "[1,3)", "bit(3)": "101", "char(4)": "x", "timestamptz": "2024-02-03 04:05:06+00"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("tailbox", "a"))
			r.Cfg.Start = "pending"
			r.Exec(before + "CREATE TABLE a (id " + typ + ", type text, payload text, status text DEFAULT 'pending')")
			told := func(by, text string) {
				t.Helper()
				if strings.Contains(text, "cannot be an id") != (value == "") {
					t.Errorf("%s: %s", by, text)
				}
			}
			told("check", pgtest.Levels(r.Check(), check.Problem))
			_, err := setup.Init(r.Ctx, r.Cfg)
			told("init", pgtest.ErrorText(err))
			r.Exec(migrate.TablesIn("").Script())
			st, err := pgstore.Open(r.Ctx, r.Cfg)
			told("run", pgtest.ErrorText(err))
			if value == "" {
				if !errors.Is(err, source.ErrStop) {
					t.Errorf("open: %v", err)
				}
				return
			}
			if err := st.Close(r.Ctx); err != nil {
				t.Fatal(err)
			}
			r.Open()
			r.Exec("INSERT INTO a (id, type) VALUES ($1::text::"+typ+", 'T')", value)
			id := r.Text("SELECT id::text FROM a")
			if _, err := r.St.Pending(r.Ctx, `{"table": "public.a", "after": ""}`, 10); err != nil {
				t.Error(err)
			}
			r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "public.a", ID: id, Position: outbox.Position{Log: 1, Commit: 1}}}})
			pgtest.Equal(t, "status", r.Text("SELECT status FROM a"), "delivered")
		})
	}
}
