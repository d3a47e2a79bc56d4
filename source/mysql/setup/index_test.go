package setup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/test/servers"
)

// An index that the optimizer is told to leave alone cannot be used by name either: where it is the only one on the id, Check and
// Open say what mends it; another one is taken where there is one.
func TestHiddenIndex(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		hidden := map[string]string{server.KindMySQL: "INVISIBLE", server.KindMariaDB: "IGNORED"}[kind]
		shown := map[string]string{server.KindMySQL: "VISIBLE", server.KindMariaDB: "NOT IGNORED"}[kind]
		r := mysqltest.NewSourceRig(t, servers.SharedMySQL(t, kind), newSource)
		// A primary key cannot be hidden, nor in MySQL a unique key that stands in for one.
		r.Exec("ALTER TABLE outbox DROP PRIMARY KEY, ADD PRIMARY KEY (seq)", "ALTER TABLE outbox ADD UNIQUE KEY by_id (id)",
			"ALTER TABLE outbox ALTER INDEX by_id "+hidden)
		findings, err := Check(r.Ctx, r.Cfg)
		fix := "ALTER INDEX `by_id` " + shown
		if err != nil || mysqltest.CountProblems(findings) != 1 || !strings.Contains(fmt.Sprint(findings), fix) {
			t.Errorf("check: %v, %v", findings, err)
		}
		for range 30 { // none leaves the pipeline's lock to a session that the server has yet to end
			if _, err := mystore.Open(r.Ctx, r.Cfg); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
				t.Fatalf("open the store: %v", err)
			}
		}
		r.Exec("ALTER TABLE outbox ADD KEY other_id (id)")
		st, err := mystore.Open(r.Ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Load(r.Ctx)
		if err == nil {
			_, err = st.Pending(r.Ctx, "", 10)
		}
		if err := errors.Join(err, st.Close(r.Ctx)); err != nil {
			t.Errorf("with another index: %v", err)
		}
	})
}
