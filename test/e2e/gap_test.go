//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// dropSlot takes the relay's position in the log away.
func (b *Bed) dropSlot() {
	b.tb.Helper()
	b.Eventually(30*time.Second, func() string {
		if _, err := TryAsk[string](b, `SELECT pg_drop_replication_slot($1)::text`, b.Slot("relay")); err != nil {
			return fmt.Sprintf("drop slot: %v", err)
		}
		return ""
	})
}

// TestLostSlot drops the slot while the relay is stopped, or after it was killed, and goes on writing: the next start heals
// the gap from the table, before anything of the new log. What no log shows any more has the order that the table
// remembers: that of the commits where the server tracks their time, else that of the ids.
func TestLostSlot(t *testing.T) {
	for _, test := range []struct {
		name, table string
		killed      bool
		writers     int
		settings    []servers.Option
	}{
		{"stopped, rows deleted, commit times tracked", "outbox", false, 8, []servers.Option{servers.WithSetting("track_commit_timestamp", "on")}},
		{"killed, rows deleted, commit times tracked", "outbox", true, 8, []servers.Option{servers.WithSetting("track_commit_timestamp", "on")}},
		{"stopped, rows marked, one writer", "events", false, 1, nil},
		{"killed, rows marked, one writer", "events", true, 1, nil},
		{"killed, rows deleted, one writer", "outbox", true, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHook(t, Options{Own: test.settings != nil, Settings: test.settings, Top: []string{retryFast}}, "")
			h.truth.ByTime = test.settings != nil
			h.MustCommand("init")
			load := &Load{Rate: 3000, Writers: test.writers, Tables: test.table, Delivered: h.ledger.Count}
			load.Run(h.Bed)
			var logs []int64
			for range 5 {
				r := h.Start(nil)
				logs = append(logs, awaitLog(h.Bed, logs))
				Pause(2 * time.Second)
				if test.killed {
					r.Kill()
				} else {
					r.Stop()
				}
				h.afterKill()
				h.dropSlot()
				Pause(500 * time.Millisecond) // rows that no log will show
			}
			load.Stop()
			h.complete(h.Start(nil))
			if h.truth.ByTime {
				t.Logf("%d of %d transactions have a commit time before that of one that is earlier in the log", h.truth.contrary, h.truth.txns)
			}
			logs = append(logs, Ask[int64](h.Bed, `SELECT log FROM tailbox_checkpoint`))
			for i := range logs[1:] {
				if logs[i] >= logs[i+1] {
					t.Errorf("logs of the checkpoint: got %d, want each higher than the one before: a position was lost between", logs)
					break
				}
			}
		})
	}
}

// awaitLog waits until the relay has established a position anew, however slow the machine is, and returns the checkpoint's log.
func awaitLog(b *Bed, before []int64) (log int64) {
	b.tb.Helper()
	b.Eventually(time.Minute, func() string {
		var err error
		if log, err = TryAsk[int64](b, `SELECT log FROM tailbox_checkpoint`); err != nil {
			return err.Error()
		}
		if n := len(before); n > 0 && log <= before[n-1] {
			return fmt.Sprintf("the checkpoint's log is still %d", log)
		}
		return ""
	})
	return log
}

// TestLostSlotUnjudged loses the slot of a table whose rows are kept and have no status: nothing tells which were
// delivered, so the relay stops with an error that names the fix, until an operator accepts the gap.
func TestLostSlotUnjudged(t *testing.T) {
	h := newHook(t, Options{}, "")
	h.Configure(Options{Sinks: []string{fmt.Sprintf("hook: {kind: http, url: %q}", h.endpoint.URL(false))}, Tables: `
    - name: public.outbox
      shape: debezium
      on_delivered: keep
`})
	h.MustCommand("init")
	load := &Load{Rate: 1000, Tables: "outbox"}
	load.Run(h.Bed)
	r := h.Start(nil)
	h.Eventually(30*time.Second, func() string {
		if n := h.ledger.Count(); n < 1000 {
			return fmt.Sprintf("%d messages were delivered, want 1000", n)
		}
		return ""
	})
	load.Stop()
	h.Eventually(30*time.Second, func() string {
		if got, want := h.ledger.Count(), Ask[int](h.Bed, `SELECT count(*) FROM outbox`); got != want {
			return fmt.Sprintf("%d messages were delivered, want %d", got, want)
		}
		return ""
	})
	r.Stop()
	h.dropSlot()
	h.insertOutbox("gap", 10)
	for range 2 {
		r = h.Start(nil)
		if code := r.Wait(time.Minute); code != 3 {
			t.Fatalf("tailbox run with a gap it cannot judge: exit code %d, want 3", code)
		}
		if text := Tail(h.LogFile, 3); !strings.Contains(text, "accept-gap") {
			t.Fatalf("tailbox run with a gap it cannot judge: the error does not name accept-gap:\n%s", text)
		}
	}
	if res := h.Command("accept-gap"); res.Code != 2 {
		t.Errorf("accept-gap without --why: exit code %d, want 2", res.Code)
	}
	h.MustCommand("accept-gap", "--why", "the rows of the gap were sent by hand")
	before := h.ledger.Count()
	r = h.Start(nil)
	h.AwaitReading()
	after := h.insertOutbox("after", 10)
	h.Eventually(30*time.Second, func() string {
		for _, id := range after {
			if count, _ := h.ledger.Times(id); count == 0 {
				return fmt.Sprintf("message %d, written after the gap was accepted, was not delivered", id)
			}
		}
		return ""
	})
	r.Stop()
	if got := h.ledger.Count() - before; got != 10 {
		t.Errorf("messages delivered after the gap: got %d, want the 10 that were written after it", got)
	}
	if why := Ask[string](h.Bed, `SELECT reason FROM tailbox_request WHERE verb = 'accept-gap'`); !strings.Contains(why, "by hand") {
		t.Errorf("reason kept in tailbox_request: got %q", why)
	}
	h.ledger.Verdict(t)
}

// insertOutbox writes n messages of one group in one transaction.
func (b *Bed) insertOutbox(group string, n int) []int64 {
	b.tb.Helper()
	return b.insert(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT id, 'order', $1, 'Placed', jsonb_build_object('n', id, 'g', 'order:' || $1)
		FROM (SELECT nextval('message_id') AS id FROM generate_series(1, $2)) AS new RETURNING id`, group, n)
}

// insertEvents does the same in the table events.
func (b *Bed) insertEvents(group string, n int) []int64 {
	b.tb.Helper()
	return b.insert(`INSERT INTO events (id, type, topic, message_group, key, payload)
		SELECT id, 'Changed', 'events', 'order:' || $1, $1, convert_to(jsonb_build_object('n', id, 'g', 'order:' || $1)::text, 'UTF8')
		FROM (SELECT nextval('message_id') AS id FROM generate_series(1, $2)) AS new RETURNING id`, group, n)
}

func (b *Bed) insert(sql, group string, n int) []int64 {
	b.tb.Helper()
	ids, err := Rows[int64](b.context(), b, sql, group, n)
	if err != nil {
		b.tb.Fatalf("write messages: %v", err)
	}
	return ids
}
