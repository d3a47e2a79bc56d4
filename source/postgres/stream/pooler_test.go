package stream_test

import (
	"testing"

	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// What belongs to a session goes past a pooler, which would hand it on to other clients.
func TestWatchGoesPastThePooler(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("tailbox", "outbox"))
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	r.Cfg.URL, r.Cfg.LockURL = pgtest.Pooled(t, r.Cfg.URL), r.Cfg.URL
	conn, err := stream.OpenWatch(r.Ctx, &r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.OwnSession(r.Ctx, conn.PgConn()); err != nil {
		t.Error(err)
	}
	_ = session.Close(r.Ctx, conn)
}
