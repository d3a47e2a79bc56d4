package usertable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Where the relay writes a column of the partition key, its own writing would move rows to other partitions, and the log would show each
// as a new message. So check, init and run refuse it, and nothing else.
func TestPartitionKeyThatMarksWrite(t *testing.T) {
	t.Parallel()
	deletes := func(c *session.Config) { c.Tables[0].OnDelivered = outbox.Delete }
	const parts = "; CREATE TABLE rest PARTITION OF events DEFAULT"
	for name, c := range map[string]struct {
		change   func(*session.Config)
		by, ddl  string
		refusing string // the column; "" = nothing is refused
	}{
		"mark":                               {nil, "LIST (st)", parts, "st"},
		"time of mark":                       {nil, "RANGE (done)", parts, "done"},
		"expression":                         {nil, "LIST (upper(st || type))", parts, "st"},
		"second level":                       {nil, "RANGE (id)", parts + " PARTITION BY RANGE (tries, type); CREATE TABLE rest2 PARTITION OF rest DEFAULT", "tries"},
		"delete, which shows what is parked": {deletes, "LIST (st)", parts, "st"},
		"delete, and the time is not written": {func(c *session.Config) {
			deletes(c)
			c.Tables[0].Columns.Status, c.Tables[0].Columns.Attempts = "", ""
		}, "RANGE (done)", parts, ""},
		"delete, and the column is left out": {func(c *session.Config) {
			deletes(c)
			c.Tables[0].Columns.Status = ""
		}, "LIST (st)", parts, ""},
		"keep":               {func(c *session.Config) { c.Tables[0].OnDelivered, c.Start = outbox.Keep, "now" }, "LIST (st)", parts, ""},
		"keep, with receipt": {func(c *session.Config) { c.Tables[0].OnDelivered, c.Tables[0].Columns.Receipt = outbox.Keep, "got" }, "LIST (got)", parts, "got"},
		"another column":     {nil, "RANGE (at)", parts, ""},
		"no log":             {func(c *session.Config) { c.Poll = true }, "LIST (st)", parts, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := outbox.Table{Schema: "public", Name: "events", Shape: "tailbox", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(),
				Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload", Status: "st", Attempts: "tries", DeliveredAt: "done", CreatedAt: "at", Seq: "seq"}}
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
			r.Exec("CREATE SEQUENCE numbers")
			r.Exec(`CREATE TABLE events (id bigint NOT NULL, type text NOT NULL, payload text NOT NULL, st text NOT NULL DEFAULT 'pending', tries int NOT NULL DEFAULT 0,
				done timestamptz, at timestamptz NOT NULL DEFAULT now(), got text, seq bigint DEFAULT nextval('numbers')) PARTITION BY ` + c.by + c.ddl)
			if c.change != nil {
				c.change(&r.Cfg)
			}
			refused := func(by, text string) {
				t.Helper()
				if strings.Contains(text, "is partitioned by "+c.refusing) != (c.refusing != "") {
					t.Errorf("%s: %s", by, text)
				}
				for _, want := range []string{"public.events", "created_at", "source.tables.columns"} {
					if c.refusing != "" && !strings.Contains(text, want) {
						t.Errorf("%s lacks %q: %s", by, want, text)
					}
				}
			}
			refused("check", pgtest.Levels(r.Check(), check.Problem))
			_, err := setup.Init(r.Ctx, r.Cfg)
			if !r.Cfg.Poll { // which needs a unique index, too
				refused("init", pgtest.ErrorText(err))
			}
			if c.refusing != "" {
				pgtest.Equal(t, "tables that init made", r.Text("SELECT count(*)::text FROM pg_tables WHERE tablename LIKE 'tailbox%'"), "0")
			}
			r.Exec(migrate.TablesIn("").Script())
			st, err := pgstore.Open(r.Ctx, r.Cfg)
			if err == nil {
				if err := st.Close(r.Ctx); err != nil {
					t.Fatal(err)
				}
			}
			refused("run", pgtest.ErrorText(err))
			if c.refusing != "" && !errors.Is(err, source.ErrStop) {
				t.Errorf("run: %v", err)
			}
		})
	}
}
