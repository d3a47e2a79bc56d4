package setup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Check names what would refuse that the relay deletes or marks rows, which would stop it later.
func TestCheckFindsRefusals(t *testing.T) {
	t.Parallel()
	deletes := func(t *outbox.Table) { t.OnDelivered = outbox.Delete }
	keeps := func(t *outbox.Table) { t.OnDelivered = outbox.Keep }
	const refers = `CREATE TABLE replies (id int, answers bigint, CONSTRAINT "Answers" FOREIGN KEY (answers) REFERENCES events (id)%s)`
	const guard = "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER guard %s ON events FOR EACH %s EXECUTE FUNCTION guard()"
	for name, c := range map[string]struct {
		change func(*outbox.Table)
		ddl    string
		level  check.Level
		want   []string // nil: nothing is found
	}{
		"key":                       {deletes, fmt.Sprintf(refers, ""), check.Problem, []string{`FOREIGN KEY "Answers"`, "table public.replies refer", "ON DELETE CASCADE"}},
		"key of a partition":        {deletes, fmt.Sprintf(refers, "") + " PARTITION BY LIST (id); CREATE TABLE first PARTITION OF replies DEFAULT", check.Problem, []string{`"Answers"`}},
		"key that cascades":         {deletes, fmt.Sprintf(refers, " ON DELETE CASCADE"), check.Problem, nil},
		"key that sets null":        {deletes, fmt.Sprintf(refers, " ON DELETE SET NULL"), check.Problem, nil},
		"key to what is marked":     {nil, fmt.Sprintf(refers, ""), check.Problem, nil},
		"key to what is cleared":    {func(t *outbox.Table) { t.Retention = 1 }, fmt.Sprintf(refers, ""), check.Problem, []string{"FOREIGN KEY"}},
		"trigger":                   {nil, fmt.Sprintf(guard, "AFTER UPDATE OR DELETE", "ROW"), check.Warning, []string{"trigger guard, AFTER DELETE OR UPDATE", "stops"}},
		"trigger that suppresses":   {deletes, fmt.Sprintf(guard, "BEFORE DELETE", "ROW"), check.Warning, []string{"trigger guard, BEFORE DELETE", "reconciliation"}},
		"trigger of a statement":    {deletes, fmt.Sprintf(guard, "BEFORE DELETE", "STATEMENT"), check.Warning, []string{"trigger guard, BEFORE DELETE: if it refuses"}},
		"trigger of a column":       {nil, fmt.Sprintf(guard, "AFTER UPDATE OF st", "ROW"), check.Warning, []string{"trigger guard, AFTER UPDATE"}},
		"trigger of another column": {nil, fmt.Sprintf(guard, "AFTER UPDATE OF claimed_by", "ROW"), check.Warning, nil},
		"trigger of another change": {nil, fmt.Sprintf(guard, "AFTER INSERT OR DELETE", "ROW"), check.Warning, nil},
		"trigger that is off":       {nil, fmt.Sprintf(guard, "AFTER UPDATE", "ROW") + "; ALTER TABLE events DISABLE TRIGGER guard", check.Warning, nil},
		"trigger of what is kept":   {keeps, fmt.Sprintf(guard, "AFTER UPDATE", "ROW"), check.Warning, nil},
		"words":                     {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'it''s', 'sent'))", check.Problem, []string{"CHECK constraint known", "delivered message"}},
		"words, one missing":        {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'delivered', 'retrying', 'waiting'))", check.Problem, []string{"known", "dead message"}},
		"words, all there":          {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'delivered', 'retrying', 'waiting', 'dead'))", check.Problem, nil},
		"words, if deleted":         {deletes, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'retrying', 'waiting', 'dead'))", check.Problem, nil},
		"time with the word":        {nil, "ALTER TABLE events ADD CONSTRAINT timed CHECK (st <> 'delivered' OR done IS NOT NULL)", check.Problem, nil},
		"time without the word":     {nil, "ALTER TABLE events ADD CONSTRAINT timed CHECK (done IS NULL OR st = 'sent')", check.Problem, []string{"timed"}},
		"another column":            {nil, "ALTER TABLE events ADD CONSTRAINT claimed CHECK (st = 'pending' OR claimed_by IS NOT NULL)", check.Warning, []string{"claimed", "may refuse"}},
		"what cannot be tried":      {nil, "CREATE FUNCTION deep(text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; ALTER TABLE events ADD CONSTRAINT known CHECK (deep(st))", check.Warning, []string{"known on st", "could not be tried"}},
		"nothing that is written":   {nil, "ALTER TABLE events ADD CONSTRAINT positive CHECK (id > 0)", check.Warning, nil},
		"kept":                      {keeps, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'sent'))", check.Problem, nil},
		"unique status":             {nil, "CREATE UNIQUE INDEX one ON events (st)", check.Problem, []string{"unique index one on st", "two delivered messages", "DROP INDEX public.one"}},
		"unique status of some":     {nil, "CREATE UNIQUE INDEX one ON events (st) WHERE st = 'processing'", check.Problem, nil},
		"unique status of dead":     {nil, "CREATE UNIQUE INDEX one ON events (st) WHERE st = 'dead'", check.Problem, []string{"two dead messages"}},
		"unique error":              {nil, "CREATE UNIQUE INDEX one ON events (st, err)", check.Problem, []string{"one on st, err", "two retrying messages"}},
		"unique error, NULLs alike": {nil, "CREATE UNIQUE INDEX one ON events (st, err) NULLS NOT DISTINCT", check.Problem, []string{"two delivered messages"}},
		"unique with the id":        {nil, "CREATE UNIQUE INDEX one ON events (st) INCLUDE (id); DROP INDEX one; CREATE UNIQUE INDEX one ON events (st, id)", check.Problem, nil},
		"generated status":          {nil, "ALTER TABLE events DROP st, ADD st text GENERATED ALWAYS AS (CASE WHEN done IS NULL THEN 'pending' ELSE 'delivered' END) STORED", check.Problem, []string{"column st", "is generated"}},
		"unique expression":         {nil, "CREATE UNIQUE INDEX one ON events (st, (id % 1000000))", check.Problem, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := outbox.Table{Schema: "public", Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(), Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload",
				Status: "st", Attempts: "tries", NextAttemptAt: "due", LastError: "err", DeliveredAt: "done"}}
			if c.change != nil {
				c.change(&table)
			}
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), table)
			r.Exec(`CREATE DOMAIN number AS bigint NOT NULL CHECK (value > 0); CREATE TABLE events (id bigint PRIMARY KEY, type text, payload text, st varchar(20) NOT NULL DEFAULT 'pending',
				tries int NOT NULL DEFAULT 0, due timestamptz, err varchar(100), done timestamptz, claimed_by int, n number DEFAULT 1)`)
			r.Exec(c.ddl)
			var told []string
			for _, f := range r.Check() {
				if strings.Contains(f.What, "table public.events") && f.Level != check.Info && !strings.Contains(f.What, "publication") {
					told = append(told, fmt.Sprint(f))
					if f.Level != c.level {
						t.Errorf("check: %v is a %v", f, f.Level)
					}
				}
			}
			if len(told) != min(len(c.want), 1) {
				t.Fatalf("check: got %q, want %q", told, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(told[0], want) {
					t.Errorf("check: got %s, want %q in it", told[0], want)
				}
			}
		})
	}
}
