package stream_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// TestRowSecurityHidesNothing: rows that row-level security hides from the role stop the first start. They would be taken for rows that are not there.
func TestRowSecurityHidesNothing(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	r.Cfg.Start = "pending"
	if _, err := setup.Init(context.Background(), r.Cfg); err != nil {
		t.Fatal(err)
	}
	role := strings.ToLower("hidden_" + r.Cfg.Slot)
	r.Exec("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('a', '1', 'hidden')")
	r.Exec("CREATE ROLE " + role + " LOGIN REPLICATION PASSWORD 'p'")
	t.Cleanup(func() {
		r.Exec("DROP OWNED BY " + role)
		r.Exec("DROP ROLE " + role)
	})
	r.Exec("GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA public TO " + role)
	r.Exec("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
	u, err := url.Parse(r.Cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "p")
	r.Cfg.URL = u.String()
	snap, err := stream.New(r.Cfg).Establish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := snap.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	sweep, err := snap.Judge(context.Background(), source.Known{First: true})
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "BYPASSRLS") {
		t.Errorf("Judge returned %t, %v", sweep, err)
	}
}
