package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// A lock_url that leads elsewhere would keep the checkpoint of one database in another one. It is found before anything is made,
// dropped or written.
func TestLockURLElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := func(t *testing.T, r, other *storeRig, url string) {
		t.Helper()
		stands := func() string {
			return r.text("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
		}
		before := stands()
		r.cfg.LockURL = url
		_, opened := openStore(r.ctx, r.cfg)
		if !errors.Is(opened, source.ErrStop) {
			t.Fatalf("open store: %v", opened)
		}
		created, initErr := r.cfg.Init(r.ctx)
		dropped, _, uninstallErr := r.cfg.Uninstall(r.ctx, true)
		if initErr == nil || uninstallErr == nil {
			t.Fatalf("init: %q, %v; uninstall: %q, %v", created, initErr, dropped, uninstallErr)
		}
		for _, text := range []string{opened.Error(), initErr.Error(), uninstallErr.Error(), levels(r.check(), Problem)} {
			for _, want := range []string{"source.lock_url", "source.url", r.db} {
				if !strings.Contains(text, want) {
					t.Errorf("%q lacks %q", text, want)
				}
			}
		}
		equal(t, "the slot stands", stands(), before)
		equal(t, "relay's tables elsewhere", other.text("SELECT count(*)::text FROM pg_tables WHERE tablename LIKE 'tailbox_%'"), "3")
	}
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		r, other := newOwnerRig(t), newOwnerRig(t)
		r.positioned()
		elsewhere(t, r, other, other.cfg.URL)
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		r := newOwnerRig(t)
		r.positioned()
		// The database has the same name there.
		pg := servers.Shared(t, "16")
		maker := newBareRig(t, pg)
		maker.exec("CREATE DATABASE " + quoteIdent(r.db))
		t.Cleanup(func() { maker.exec("DROP DATABASE " + quoteIdent(r.db) + " WITH (FORCE)") })
		other := &storeRig{rig: &rig{t: t, pg: pg, db: r.db}, ctx: r.ctx}
		other.conn = other.connect()
		script, err := r.cfg.SetupScript()
		if err != nil {
			t.Fatal(err)
		}
		other.exec(script)
		elsewhere(t, r, other, pg.SocketURL(r.db))
	})
}

// Before there is anything, init makes nothing.
func TestLockURLElsewhereBeforeInit(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r, other := newBareRig(t, pg, shape("debezium", "outbox")), newBareRig(t, pg)
	r.cfg.LockURL = other.cfg.URL
	for _, poll := range []bool{false, true} {
		r.cfg.Poll = poll
		if _, err := r.cfg.Init(r.ctx); err == nil || !strings.Contains(err.Error(), "source.lock_url") {
			t.Errorf("init: %v", err)
		}
	}
	equal(t, "tables", r.text("SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"), "0")
}
