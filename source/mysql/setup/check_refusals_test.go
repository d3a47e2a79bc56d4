package setup

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Check names what would refuse that the relay deletes or marks rows, which would stop it later.
func TestCheckFindsRefusals(t *testing.T) {
	deletes := func(t *outbox.Table) { t.OnDelivered = outbox.Delete }
	keeps := func(t *outbox.Table) { t.OnDelivered = outbox.Keep }
	const refers = "CREATE TABLE replies (id INT PRIMARY KEY, answers BIGINT, CONSTRAINT answers FOREIGN KEY (answers) REFERENCES events (id)%s)"
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for name, c := range map[string]struct {
			change func(*outbox.Table)
			ddl    string
			level  check.Level
			want   []string // nil: nothing is found
		}{
			"key":                       {deletes, fmt.Sprintf(refers, ""), check.Problem, []string{"FOREIGN KEY answers", ".replies refer", "ON DELETE CASCADE"}},
			"key that cascades":         {deletes, fmt.Sprintf(refers, " ON DELETE CASCADE"), check.Problem, nil},
			"key that sets null":        {deletes, fmt.Sprintf(refers, " ON DELETE SET NULL"), check.Problem, nil},
			"key to what is marked":     {nil, fmt.Sprintf(refers, ""), check.Problem, nil},
			"key to what is cleared":    {func(t *outbox.Table) { t.Retention = 1 }, fmt.Sprintf(refers, ""), check.Problem, []string{"FOREIGN KEY answers"}},
			"trigger":                   {nil, "CREATE TRIGGER guard AFTER UPDATE ON events FOR EACH ROW SET @a = 1", check.Warning, []string{"trigger guard, AFTER UPDATE"}},
			"trigger of a deletion":     {deletes, "CREATE TRIGGER guard BEFORE DELETE ON events FOR EACH ROW SET @a = 1", check.Warning, []string{"trigger guard, BEFORE DELETE"}},
			"trigger of another change": {nil, "CREATE TRIGGER guard BEFORE DELETE ON events FOR EACH ROW SET @a = 1", check.Warning, nil},
			"trigger of what is kept":   {keeps, "CREATE TRIGGER guard AFTER UPDATE ON events FOR EACH ROW SET @a = 1", check.Warning, nil},
			"words":                     {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'sent'))", check.Problem, []string{"CHECK constraint known", "delivered message"}},
			"words, one missing":        {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'delivered', 'retrying', 'waiting'))", check.Problem, []string{"known", "dead message"}},
			"words, all there":          {nil, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'delivered', 'retrying', 'waiting', 'dead'))", check.Problem, nil},
			"words, if deleted":         {deletes, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'retrying', 'waiting', 'dead'))", check.Problem, nil},
			"word, at the column":       {nil, "ALTER TABLE events MODIFY st VARCHAR(20) DEFAULT 'pending' COMMENT 'a CHECK (of' CHECK (st <> 'dead')", check.Problem, []string{"CHECK constraint", "dead message"}},
			"label":                     {nil, "ALTER TABLE events MODIFY st ENUM('pending', 'delivered', 'retrying', 'waiting', 'dead') DEFAULT 'pending', ADD CONSTRAINT known CHECK (st IN ('pending', 'dead'))", check.Warning, []string{"known", "delivered message"}},
			"words, other case":         {nil, "ALTER TABLE events MODIFY st VARCHAR(20) COLLATE utf8mb4_bin DEFAULT 'pending', ADD CONSTRAINT known CHECK (st <> 'DEAD')", check.Problem, nil},
			"words, case ignored":       {nil, "ALTER TABLE events MODIFY st VARCHAR(20) COLLATE utf8mb4_general_ci DEFAULT 'pending', ADD CONSTRAINT known CHECK (st <> 'DEAD')", check.Problem, []string{"known", "dead message"}},
			"time with the word":        {nil, "ALTER TABLE events ADD CONSTRAINT timed CHECK (st <> 'delivered' OR done IS NOT NULL)", check.Problem, nil},
			"time without the word":     {nil, "ALTER TABLE events ADD CONSTRAINT timed CHECK (done IS NULL OR st = 'sent')", check.Problem, []string{"timed"}},
			"another column":            {nil, "ALTER TABLE events ADD CONSTRAINT claimed CHECK (st = 'pending' OR claimed_by IS NOT NULL)", check.Warning, []string{"claimed", "may refuse"}},
			"nothing that is written":   {nil, "ALTER TABLE events ADD CONSTRAINT positive CHECK (id > 0)", check.Warning, nil},
			"kept":                      {keeps, "ALTER TABLE events ADD CONSTRAINT known CHECK (st IN ('pending', 'sent'))", check.Problem, nil},
			"unique status":             {nil, "CREATE UNIQUE INDEX one ON events (st)", check.Problem, []string{"unique index one on st", "two delivered messages"}},
			"unique error":              {nil, "CREATE UNIQUE INDEX one ON events (st, err)", check.Problem, []string{"one on st, err", "two retrying messages"}},
			"unique with the id":        {nil, "CREATE UNIQUE INDEX one ON events (st, id)", check.Problem, nil},
		} {
			t.Run(name, func(t *testing.T) {
				table := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: outbox.DefaultWords(), Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload",
					Status: "st", Attempts: "tries", NextAttemptAt: "due", LastError: "err", DeliveredAt: "done"}}
				if c.change != nil {
					c.change(&table)
				}
				r := mysqltest.NewBareRig(t, my, mystore.Open, append(mysqltest.RelayTables(), `CREATE TABLE events (id BIGINT PRIMARY KEY, type TEXT, payload TEXT, st VARCHAR(20) DEFAULT 'pending', tries INT NOT NULL DEFAULT 0,
					due DATETIME, err VARCHAR(100), done DATETIME(6), claimed_by INT)`, c.ddl), table)
				if strings.HasPrefix(c.ddl, "ALTER") { // which the account needs no more to see than its rights to the table
					r.Cfg.URL = leastURL(t, r)
				}
				findings, err := Check(r.Ctx, r.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				var told []string
				for _, f := range findings {
					if f.Level == check.Problem || f.Level == check.Warning && strings.Contains(f.What, "table") {
						told = append(told, fmt.Sprint(f))
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
				for _, f := range findings {
					if len(c.want) > 0 && strings.Contains(f.What, c.want[0]) && f.Level != c.level {
						t.Errorf("check: %v is a %v", f, f.Level)
					}
				}
			})
		}
	})
}

// leastURL is that of an account that may do what the relay does, and nothing else.
func leastURL(t *testing.T, r *mysqltest.StoreRig) string {
	t.Helper()
	name := r.DB[len(r.DB)-8:] + "_least"
	r.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'pass'", name))
	for sql := range strings.SplitSeq(RoleSQL(r.Cfg, "'"+name+"'@'%'", r.DB), ";\n") {
		if strings.TrimSpace(sql) != "" {
			r.Exec(sql)
		}
	}
	u, err := url.Parse(r.Cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pass")
	return u.String()
}

// A key of a table that the account may only read is named; what it does on a deletion, where the server shows that.
func TestCheckNamesKeysOfOthers(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("debezium", "outbox"))
		r.Exec("CREATE TABLE replies LIKE outbox")
		r.Exec("ALTER TABLE replies ADD CONSTRAINT answers FOREIGN KEY (id) REFERENCES outbox (id)")
		r.Cfg.URL = leastURL(t, r)
		for _, sees := range []bool{false, true} {
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(findings); strings.Contains(text, "FOREIGN KEY answers") != sees {
				t.Errorf("sees it: %v, check: %s", sees, text)
			}
			r.Exec(fmt.Sprintf("GRANT SELECT ON replies TO '%s_least'@'%%'", r.DB[len(r.DB)-8:]))
		}
	})
}

// An account that may have fewer connections than a pipeline needs is told, whoever limits it.
func TestCheckNamesTooFewConnections(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		my := servers.MySQL(t, kind, servers.WithSetting("max_user_connections", "4"))
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("tailbox", "outbox"))
		root := r.Cfg.URL
		for name, c := range map[string]struct {
			limit int
			grant string
			want  string // "" = nothing
		}{
			"server":  {0, "", "may have 4 connections at a time"},
			"account": {3, "", "may have 3 connections at a time"},
			"enough":  {5, "", ""},
			"exempt":  {0, "SUPER", map[string]string{server.KindMySQL: "may have 4 connections"}[kind]},
		} {
			r.Exec("DROP USER IF EXISTS few")
			r.Exec("CREATE USER few IDENTIFIED BY 'pass' WITH MAX_USER_CONNECTIONS " + fmt.Sprint(c.limit))
			r.Exec("GRANT ALL ON `" + r.DB + "`.* TO few")
			if c.grant != "" {
				r.Exec("GRANT " + c.grant + " ON *.* TO few")
			}
			u, err := url.Parse(root)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("few", "pass")
			r.Cfg.URL = u.String()
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(findings)
			if told := strings.Contains(text, "connections at a time"); told != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%s: got %s, want %q in it", name, text, c.want)
			}
		}
	})
}
