package mysql

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// With 60,000 deliveries parked, what the relay asks every second, and what it does for each lane, still goes by index.
func TestManyParked(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := loadedRig(t, my, Open, nil, storeShape("tailbox", "outbox"))
		const lanes, each = 60, 1000
		start := time.Now()
		for l := range lanes {
			var ps []checkpoint.Parked
			for i := range each {
				m := r.msg(l*each+i, fmt.Sprintf("g%d", l))
				if i == 0 {
					ps = append(ps, head("kafka", m, time.Duration(l%2)*time.Hour))
					continue
				}
				ps = append(ps, follower("kafka", m))
			}
			r.park(ps...)
		}
		t.Logf("parked %d in %v", lanes*each, time.Since(start).Round(time.Millisecond))
		equal(t, "with a time", r.text("SELECT COUNT(*) FROM tailbox_parked WHERE next_attempt_at IS NOT NULL"), fmt.Sprint(lanes))
		for _, c := range []struct {
			name string
			most int64
			do   func()
		}{
			{"due", 1000, func() { r.due("kafka") }},
			{"page", 200, func() {
				if _, _, err := r.st.Page(r.ctx, checkpoint.Lane{Sink: "kafka", Group: "g1"}, outbox.Position{}, 20, 1<<20); err != nil {
					t.Fatal(err)
				}
			}},
			{"delivered", 400, func() {
				if out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", r.msg(0, "g0"))}}); len(out.Next) != 1 {
					t.Errorf("delivered: %+v", *out)
				}
			}},
			{"retried", 400, func() {
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", r.msg(1, "g0"), 2, time.Hour)}})
			}},
			{"parked", 400, func() { r.park(follower("kafka", r.msg(lanes*each, "g3"))) }},
			{"settled", 400, func() { r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{rowOf(r.msg(3, "g0"), true)}}) }},
			// A row of each delivery for each count, and one of each lane. If the index is not used, each lane costs a row of each delivery.
			{"status", 8 * lanes * each, func() {
				if err := reportSinks(r.ctx, r.st.(*stateStore), &Report{}); err != nil {
					t.Fatal(err)
				}
			}},
			{"requests", 50, func() {
				if _, err := r.st.Requests(r.ctx); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			if n := reads(r, r.st.(*stateStore).relaySession, c.do); n > c.most {
				t.Errorf("%s: %d rows were read, want at most %d", c.name, n, c.most)
			} else {
				t.Logf("%s: %d rows read", c.name, n)
			}
		}
		equal(t, "blocked", len(r.reopen().Blocked), lanes)
	})
}
