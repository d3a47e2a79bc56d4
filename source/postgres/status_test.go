package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/test/servers"
)

// Anybody may take the lock of a pipeline: who it is, is told, and that it is no relay.
func TestHolderOfTheLock(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	var locked *checkpoint.LockedError
	if _, err := r.cfg.Open(r.ctx); !errors.As(err, &locked) || locked.Foreign || !strings.Contains(err.Error(), "role postgres, pid ") {
		t.Errorf("beside a relay: %v", err)
	}
	if err := r.st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	role := r.role("mallory", "")
	conn, err := pgx.Connect(r.ctx, r.as(role).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(r.ctx) }()
	exec(t, conn, "SET application_name = '"+appName(r.cfg.Pipeline)+"'") // which anybody can say
	if _, err := conn.Exec(r.ctx, "SELECT pg_advisory_lock($1)", lockKey(r.cfg.Pipeline)); err != nil {
		t.Fatal(err)
	}
	_, err = r.cfg.Open(r.ctx)
	if !errors.As(err, &locked) || !locked.Foreign || !strings.Contains(err.Error(), "role "+role+", pid ") || !strings.Contains(err.Error(), "pg_terminate_backend(") {
		t.Errorf("beside somebody else: %v", err)
	}
	report, err := Status(r.ctx, r.cfg)
	if err != nil || report.Holder == nil || !report.Holder.Foreign || report.Holder.Role != role {
		t.Errorf("status: %+v, %v", report.Holder, err)
	}
}
