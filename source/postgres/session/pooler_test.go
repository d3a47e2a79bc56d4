package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/snapshot"
	"github.com/tailbox/tailbox/source/postgres/status"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// What belongs to a session (settings, an exported snapshot, a lock) goes past a pooler, which would hand it on to other clients.
func TestSessionsGoPastThePooler(t *testing.T) {
	t.Parallel()
	r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("tailbox", "outbox"))
	if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
		t.Fatal(err)
	}
	direct := r.Cfg.URL
	r.Cfg.URL, r.Cfg.LockURL, r.Cfg.Logger = pgtest.Pooled(t, direct), direct, r.Cfg.Log()
	own := func(what string, conn *pgx.Conn) {
		t.Helper()
		if err := session.OwnSession(r.Ctx, conn.PgConn()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	through, err := r.Cfg.Dial(r.Ctx, r.Cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.OwnSession(r.Ctx, through.PgConn()); !errors.Is(err, source.ErrStop) {
		t.Errorf("a session of the pooler: %v", err)
	}
	_ = session.Close(r.Ctx, through)

	r.Own()
	snap, err := stream.New(r.Cfg).Establish(r.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	own("snapshot", snap.(*snapshot.Tables).Conn)
	_ = snap.Close(r.Ctx)

	pooledOnly := r.Cfg
	pooledOnly.LockURL = ""
	if _, _, err := setup.Uninstall(r.Ctx, pooledOnly, true); err == nil || !strings.Contains(err.Error(), "set source.lock_url") {
		t.Errorf("uninstall through the pooler: %v", err)
	}
	if dropped, _, err := setup.Uninstall(r.Ctx, r.Cfg, true); err != nil || len(dropped) != 3 {
		t.Errorf("uninstall: %v, %v", dropped, err)
	}
}

// Debian's PgBouncer: without source.lock_url each command is refused with the fix, in every mode; with it they work in every mode, since nothing
// but the connection that reads the log goes through the pooler. That one a pooler of this version refuses.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewBareRig(t, servers.Shared(t, "17"), pgtest.Shape("tailbox", "outbox"))
			direct := r.Cfg.URL
			r.Cfg.URL, r.Cfg.Logger = servers.PgBouncer(t, r.PG, mode, r.DB), r.Cfg.Log()
			const fix = "set source.lock_url to a direct connection"
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
					t.Errorf("%s through the pooler: %v, want the fix", what, err)
				}
			}
			for range 3 { // the pool's second connection, and one that was used before
				_, err := setup.Init(r.Ctx, r.Cfg)
				refused("init", err)
				_, err = status.Read(r.Ctx, r.Cfg)
				refused("status", err)
				_, err = postgres.Config(r.Cfg).Open(r.Ctx)
				refused("run", err)
				if problems := pgtest.Levels(r.Check(), check.Problem); !strings.Contains(problems, fix) || strings.Contains(problems, "42P05") {
					t.Errorf("check through the pooler: %s", problems)
				}
			}
			r.Cfg.LockURL = direct
			for range 3 {
				// Init ends at the replication connection, which this pooler does not let through.
				if _, err := setup.Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), "replication") || pgerr.State(err) == "42P05" {
					t.Errorf("init: %v", err)
				}
				if problems := pgtest.Levels(r.Check(), check.Problem); !strings.Contains(problems, "connect past the pooler") || strings.Contains(problems, "42P05") {
					t.Errorf("check: %s", problems)
				}
			}
			past := r.Cfg
			past.URL = direct
			if _, err := setup.Init(r.Ctx, past); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := status.Read(r.Ctx, r.Cfg); err != nil {
					t.Errorf("status: %v", err)
				}
				st, err := postgres.Config(r.Cfg).Open(r.Ctx)
				if err != nil {
					t.Fatalf("run: %v", err)
				}
				if _, err := st.Load(r.Ctx); err != nil {
					t.Errorf("run: %v", err)
				}
				if err := st.Close(r.Ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
