package setup_test

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/test/servers"
)

// TestScriptLeavesTablesAlone: the script makes no index of a table that somebody else made. It may lack a column that the index has.
func TestScriptLeavesTablesAlone(t *testing.T) {
	t.Parallel()
	own := pgtest.Shape("tailbox", "outbox")
	own.OnDelivered = outbox.Mark
	r := pgtest.NewBareRig(t, servers.Shared(t, servers.Versions(t)[0]), own)
	r.Exec("CREATE TABLE outbox (id text PRIMARY KEY, payload text NOT NULL, delivered_at timestamptz)")
	sql, err := setup.Script(r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec(sql)
	var indexes int
	if err := r.Conn.QueryRow(r.Ctx, "SELECT count(*) FROM pg_indexes WHERE tablename = 'outbox'").Scan(&indexes); err != nil || indexes != 1 {
		t.Errorf("%d indexes, %v; want 1", indexes, err)
	}
}
