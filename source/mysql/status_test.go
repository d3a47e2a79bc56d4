package mysql

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// The oldest message that is not dead counts from its commit, or from the time it is scheduled for.
func TestStatusOldestUndelivered(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, storeShape("debezium", "outbox"))
		for n := 1; n <= 4; n++ {
			r.row(n)
		}
		r.park(dead("kafka", r.msg(1, "g"), true))
		age := func(want time.Duration) {
			t.Helper()
			report, err := Status(r.ctx, r.cfg)
			if err != nil || len(report.Sinks) != 1 {
				t.Fatalf("status: %+v, %v", report, err)
			}
			if got := time.Duration(report.Sinks[0].UndeliveredSeconds * float64(time.Second)); got < want || got > want+want/2 {
				t.Errorf("age %v, want %v", got, want)
			}
		}
		at := func(n int, committed, available time.Time) *outbox.Message {
			m := r.msg(n, "h")
			m.CommitTime, m.AvailableAt = committed, available
			return m
		}
		age(0)
		r.park(follower("kafka", at(2, time.Now().Add(-3*time.Hour), time.Now().Add(time.Hour))))
		age(0)
		r.park(follower("kafka", at(3, time.Now().Add(-3*time.Hour), time.Now().Add(-time.Hour))))
		age(time.Hour)
		r.park(follower("kafka", at(4, time.Now().Add(-2*time.Hour), time.Time{})))
		age(2 * time.Hour)
	})
}
