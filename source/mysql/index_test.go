package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// An index that the optimizer is told to leave alone cannot be used by name either: where it is the only one on the id, Check and
// Open say what mends it; another one is taken where there is one.
func TestHiddenIndex(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		hidden := map[string]string{KindMySQL: "INVISIBLE", KindMariaDB: "IGNORED"}[kind]
		shown := map[string]string{KindMySQL: "VISIBLE", KindMariaDB: "NOT IGNORED"}[kind]
		r := rigWithSource(t, servers.SharedMySQL(t, kind), newSource)
		// A primary key cannot be hidden, nor in MySQL a unique key that stands in for one.
		r.exec("ALTER TABLE outbox DROP PRIMARY KEY, ADD PRIMARY KEY (seq)", "ALTER TABLE outbox ADD UNIQUE KEY by_id (id)",
			"ALTER TABLE outbox ALTER INDEX by_id "+hidden)
		findings, err := Check(r.ctx, r.cfg)
		cure := "ALTER INDEX `by_id` " + shown
		if err != nil || countProblems(findings) != 1 || !strings.Contains(fmt.Sprint(findings), cure) {
			t.Errorf("check: %v, %v", findings, err)
		}
		for range 30 { // none leaves the pipeline's lock to a session that the server has yet to end
			if _, err := Open(r.ctx, r.cfg); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), cure) {
				t.Fatalf("open the store: %v", err)
			}
		}
		r.exec("ALTER TABLE outbox ADD KEY other_id (id)")
		st, err := Open(r.ctx, r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Load(r.ctx)
		if err == nil {
			_, err = st.Pending(r.ctx, "", 10)
		}
		if err := errors.Join(err, st.Close(r.ctx)); err != nil {
			t.Errorf("with another index: %v", err)
		}
	})
}
