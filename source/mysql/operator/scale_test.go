package operator

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/test/servers"
)

// With 60,000 deliveries parked, what the relay asks every second, and what it does for each lane, still goes by index.
func TestManyParked(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := mysqltest.NewStoreRig(t, my, mystore.Open, nil, mysqltest.StoreShape("tailbox", "outbox"))
		const lanes, each = 60, 1000
		start := time.Now()
		for l := range lanes {
			var ps []checkpoint.Parked
			for i := range each {
				m := r.Msg(l*each+i, fmt.Sprintf("g%d", l))
				if i == 0 {
					ps = append(ps, sourcetest.Head("kafka", m, time.Duration(l%2)*time.Hour))
					continue
				}
				ps = append(ps, sourcetest.Follower("kafka", m))
			}
			r.Park(ps...)
		}
		t.Logf("parked %d in %v", lanes*each, time.Since(start).Round(time.Millisecond))
		mysqltest.Equal(t, "with a time", r.Text("SELECT COUNT(*) FROM tailbox_parked WHERE next_attempt_at IS NOT NULL"), fmt.Sprint(lanes))
		r.Park(sourcetest.Dead("kafka", r.Msg(lanes*each+1, "dead"), false), sourcetest.Dead("kafka", r.Msg(lanes*each+2, ""), false))
		for _, c := range []struct {
			name string
			most int64
			do   func()
		}{
			{"due", 1000, func() { r.Due("kafka") }},
			{"page", 200, func() {
				if _, _, err := r.St.Page(r.Ctx, checkpoint.Lane{Sink: "kafka", Group: "g1"}, outbox.Position{}, 20, 1<<20); err != nil {
					t.Fatal(err)
				}
			}},
			{"delivered", 400, func() {
				if out := r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", r.Msg(0, "g0"))}}); len(out.Next) != 1 {
					t.Errorf("delivered: %+v", *out)
				}
			}},
			{"retried", 400, func() {
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", r.Msg(1, "g0"), 2, time.Hour)}})
			}},
			{"parked", 400, func() { r.Park(sourcetest.Follower("kafka", r.Msg(lanes*each, "g3"))) }},
			{"settled", 400, func() {
				r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{sourcetest.RowOf(r.Msg(3, "g0"), true)}})
			}},
			// A row of each delivery for each count, and one of each lane. If the index is not used, each lane costs a row of each delivery.
			{"status", 8 * lanes * each, func() {
				if err := reportSinks(r.Ctx, r.St.(*mystore.Store), &Report{}); err != nil {
					t.Fatal(err)
				}
			}},
			// Of what is only parked, none.
			{"newest dead letters", 50, func() {
				if seen, err := (reader{r.St.(*mystore.Store)}).Newest(r.Ctx, &checkpoint.Selection{}, operate.Span{}, nil, 10); err != nil || len(seen) != 2 {
					t.Errorf("the newest dead letters: %v, %v", seen, err)
				}
			}},
			{"failures", 50, func() {
				found, err := (reader{r.St.(*mystore.Store)}).Summarize(r.Ctx, []checkpoint.State{checkpoint.StateDead}, []operate.Cause{operate.ByClass, operate.ByType})
				if err != nil || len(found.Failures) != 1 || found.Failures[0].Count != 2 {
					t.Errorf("failures: %+v, %v", found, err)
				}
			}},
			{"requests", 50, func() {
				if _, err := r.St.Requests(r.Ctx); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			if n := mysqltest.Reads(r, r.St.(*mystore.Store).Session, c.do); n > c.most {
				t.Errorf("%s: %d rows were read, want at most %d", c.name, n, c.most)
			} else {
				t.Logf("%s: %d rows read", c.name, n)
			}
		}
		mysqltest.Equal(t, "blocked", len(r.Reopen().Blocked), lanes)
	})
}
