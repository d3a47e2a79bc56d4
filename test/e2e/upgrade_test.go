//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestUpgradeServer goes through the upgrade of Postgres that docs/operating.md describes. pg_upgrade refuses a slot that has not read all of the log, and the
// relay's own last checkpoint is behind every place that a slot may have; without the slot it works. Rows that are pending are swept.
func TestUpgradeServer(t *testing.T) {
	b := NewBed(t, Options{Own: true, Settings: []servers.Option{servers.WithSetting("track_commit_timestamp", "on")}})
	l := NewLost(b, Options{}, "outbox", false)
	l.Run()
	l.AwaitDelivered(l.Write(100))
	l.AwaitSettled(time.Minute)
	l.Halt()
	b.Exec(`SELECT pg_drop_replication_slot($1)`, b.Slot("truth"))
	upgrade := func() error {
		if err := b.PG.Stop(); err != nil {
			t.Fatal(err)
		}
		next, err := b.PG.Upgrade("18")
		if err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		})
		b.PG = next
		return nil
	}
	if err := upgrade(); err == nil || !strings.Contains(err.Error(), "slot") {
		t.Fatalf("pg_upgrade with the relay's slot: %v, want it to name the slot", err)
	}
	if err := b.PG.Start(); err != nil {
		t.Fatal(err)
	}
	b.dropSlot()
	pending := l.Write(50) // somebody wrote on
	if err := upgrade(); err != nil {
		t.Fatal(err)
	}
	b.Configure(l.options)
	if got := Ask[string](b, `SHOW server_version_num`); !strings.HasPrefix(got, "18") {
		t.Fatalf("the server is of version %s", got)
	}
	if res := b.Command("check"); res.Code != 0 || !strings.Contains(res.Stdout, "the checkpoint belongs to server") {
		t.Errorf("check after the upgrade: %+v", res)
	}
	l.Run()
	l.AwaitDelivered(pending)
	l.Write(100)
	l.Healed()
}
