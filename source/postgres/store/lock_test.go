package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/status"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/test/servers"
)

// Anybody may take the lock of a pipeline: who it is, is told, and that it is no relay.
func TestHolderOfTheLock(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	var locked *checkpoint.LockedError
	if _, err := postgres.Config(r.Cfg).Open(r.Ctx); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "role postgres, pid ") {
		t.Errorf("beside a relay: %v", err)
	}
	if err := r.St.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	role := r.Role("mallory", "")
	conn, err := pgx.Connect(r.Ctx, r.As(role).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(r.Ctx) }()
	pgtest.Exec(t, conn, "SET application_name = '"+session.AppName(r.Cfg.Pipeline)+"'") // which anybody can say
	if _, err := conn.Exec(r.Ctx, "SELECT pg_advisory_lock($1)", pgstore.LockKey(r.Cfg.Pipeline)); err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Config(r.Cfg).Open(r.Ctx)
	if !errors.As(err, &locked) || !locked.Foreign || !strings.Contains(err.Error(), "role "+role+", pid ") || !strings.Contains(err.Error(), "pg_terminate_backend(") {
		t.Errorf("beside somebody else: %v", err)
	}
	report, err := status.Read(r.Ctx, r.Cfg)
	if err != nil || report.Holder == nil || !report.Holder.Foreign || report.Holder.Role != role {
		t.Errorf("status: %+v, %v", report.Holder, err)
	}
}
