//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRestoredServer takes a copy of the server's volume, goes on, and puts the copy back: as it is, which has the same slot, system and timeline, or with the log that
// was archived since up to a moment (point-in-time recovery), which begins a new timeline. The relay lives through it, was stopped or is killed. Whatever the
// restored database holds is delivered, and a consumer that keeps the highest position drops nothing of it.
func TestRestoredServer(t *testing.T) {
	for _, relay := range []string{"runs", "stopped", "killed"} {
		for _, recovery := range []string{"snapshot", "point in time"} {
			t.Run(recovery+", relay "+relay, func(t *testing.T) { restoreServer(t, relay, recovery == "point in time") })
		}
	}
}

func restoreServer(t *testing.T, relay string, pointInTime bool) {
	f := newFailovers(t, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	data, snapshot, archive := f.PG.DataDir, f.PG.DataDir+".snapshot", f.PG.DataDir+".archive"
	more := func(n int) {
		t.Helper()
		goal := f.ledger.Count() + n
		f.Eventually(time.Minute, func() string {
			if got := f.ledger.Count(); got < goal {
				return fmt.Sprintf("%d messages were delivered, want %d", got, goal)
			}
			return ""
		})
	}
	more(300)
	must(f.PG.Kill())
	must(copyTree(data, snapshot))
	must(f.PG.Start())
	more(500)
	target := Ask[string](f.Bed, `SELECT clock_timestamp()::text`)
	more(1500) // which the restored server does not know of
	switch relay {
	case "stopped":
		f.relay.Stop()
	case "killed":
		f.relay.Kill()
	}
	must(f.PG.Kill())
	must(copyTree(filepath.Join(data, "pg_wal"), archive))
	must(copyTree(snapshot, data))
	if pointInTime {
		conf := filepath.Join(data, "postgresql.auto.conf")
		text, err := os.ReadFile(conf)
		must(err)
		must(os.WriteFile(conf, fmt.Appendf(text, "\nrestore_command = 'cp %s/%%f %%p'\nrecovery_target_time = '%s'\nrecovery_target_action = 'promote'\n", archive, target), 0o600))
		must(copyTree(filepath.Join(data, "PG_VERSION"), filepath.Join(data, "recovery.signal"))) // a file of the server's owner; its content says nothing
	}
	must(f.PG.Start())
	f.Eventually(time.Minute, func() string {
		if standby, err := TryAsk[bool](f.Bed, `SELECT pg_is_in_recovery()`); err != nil || standby {
			return fmt.Sprintf("the server is in recovery (%v)", err)
		}
		return ""
	})
	if relay != "runs" {
		f.relay = f.Start(nil)
	}
	more(2000)
	log := Ask[int64](f.Bed, `SELECT log FROM tailbox_checkpoint`)
	f.settled()
	f.nothingDropped()
	if log < 1e9 {
		t.Errorf("log of the checkpoint: got %d, want that of a database that was set back", log)
	}
	f.tb.Logf("%d transactions acknowledged; %s", f.written.Load(), f.ledger)
}

// TestStandbyAway: while a standby is away that synchronized_standby_slots names, Postgres sends nothing, and the relay says so wherever somebody may look. Then all comes.
func TestStandbyAway(t *testing.T) {
	f := newFailovers(t, true)
	f.ready(false)
	if err := f.standby.Kill(); err != nil {
		t.Fatal(err)
	}
	what := f.standby.StandbyName + " has no standby that reads it"
	f.Eventually(time.Minute, func() string {
		if text := Tail(f.LogFile, 20); !strings.Contains(text, "Postgres sends no message") || !strings.Contains(text, what) {
			return "the log does not warn"
		}
		return ""
	})
	if res := f.Command("check"); res.Code != 1 || !strings.Contains(res.Stdout, what) {
		t.Errorf("check: %+v", res)
	}
	if text := f.MustCommand("status"); !strings.Contains(text, what) {
		t.Errorf("status: %s", text)
	}
	before := f.ledger.Count()
	if err := f.standby.Start(); err != nil {
		t.Fatal(err)
	}
	f.Eventually(time.Minute, func() string {
		if f.ledger.Count() < before+100 {
			return "nothing is delivered once the standby is back"
		}
		return ""
	})
	f.judge()
}
