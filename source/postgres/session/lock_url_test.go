package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// A lock_url that leads elsewhere would keep the checkpoint of one database in another one. It is found before anything is made,
// dropped or written.
func TestLockURLElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := func(t *testing.T, r, other *pgtest.StoreRig, url string) {
		t.Helper()
		stands := func() string {
			return r.Text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot)
		}
		before := stands()
		r.Cfg.LockURL = url
		_, opened := pgstore.Open(r.Ctx, r.Cfg)
		if !errors.Is(opened, source.ErrStop) {
			t.Fatalf("open store: %v", opened)
		}
		created, initErr := setup.Init(r.Ctx, r.Cfg)
		dropped, _, uninstallErr := setup.Uninstall(r.Ctx, r.Cfg, true)
		if initErr == nil || uninstallErr == nil {
			t.Fatalf("init: %q, %v; uninstall: %q, %v", created, initErr, dropped, uninstallErr)
		}
		for _, text := range []string{opened.Error(), initErr.Error(), uninstallErr.Error(), pgtest.Levels(r.Check(), check.Problem)} {
			for _, want := range []string{"source.lock_url", "source.url", r.DB} {
				if !strings.Contains(text, want) {
					t.Errorf("%q lacks %q", text, want)
				}
			}
		}
		pgtest.Equal(t, "the slot stands", stands(), before)
		pgtest.Equal(t, "relay's tables elsewhere", other.Text("SELECT count(*)::text FROM pg_tables WHERE tablename LIKE 'tailbox_%'"), "3")
	}
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		r, other := pgtest.NewOwnerRig(t), pgtest.NewOwnerRig(t)
		r.Positioned()
		elsewhere(t, r, other, other.Cfg.URL)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		r := pgtest.NewOwnerRig(t)
		r.Positioned()
		// The database has the same name there.
		pg := servers.Shared(t, "16")
		maker := pgtest.NewBareRig(t, pg)
		maker.Exec("CREATE DATABASE " + sqltext.Ident(r.DB))
		t.Cleanup(func() { maker.Exec("DROP DATABASE " + sqltext.Ident(r.DB) + " WITH (FORCE)") })
		other := &pgtest.StoreRig{Rig: &pgtest.Rig{T: t, PG: pg, DB: r.DB}, Ctx: r.Ctx}
		other.Conn = other.Connect()
		script, err := setup.Script(r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		other.Exec(script)
		elsewhere(t, r, other, pg.SocketURL(r.DB))
	})
}

// Before there is anything, init makes nothing.
func TestLockURLElsewhereBeforeInit(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r, other := pgtest.NewBareRig(t, pg, pgtest.Shape("debezium", "outbox")), pgtest.NewBareRig(t, pg)
	r.Cfg.LockURL = other.Cfg.URL
	for _, poll := range []bool{false, true} {
		r.Cfg.Poll = poll
		if _, err := setup.Init(r.Ctx, r.Cfg); err == nil || !strings.Contains(err.Error(), "source.lock_url") {
			t.Errorf("init: %v", err)
		}
	}
	pgtest.Equal(t, "tables", r.Text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"), "0")
}
