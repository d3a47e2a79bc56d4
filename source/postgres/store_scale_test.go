package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// With 100,000 deliveries parked, what the relay asks every second, and what it does for each lane, still goes by index.
func TestHundredThousandParked(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	const lanes, each = 100, 1000
	start := time.Now()
	for l := range lanes {
		var ps []checkpoint.Parked
		for i := range each {
			m := msg(l*each+i, fmt.Sprintf("g%d", l))
			if i == 0 {
				ps = append(ps, head("kafka", m, time.Duration(l%2)*time.Hour))
				continue
			}
			ps = append(ps, follower("kafka", m))
		}
		r.park(ps...)
	}
	t.Logf("parked %d in %v", lanes*each, time.Since(start))
	equal(t, "with a time", r.text("SELECT count(*)::text FROM tailbox_parked WHERE next_attempt_at IS NOT NULL"), "100")
	r.exec("UPDATE tailbox_parked SET tries = 1 WHERE next_attempt_at IS NOT NULL AND message_id <> $1", eventID(0))
	plan := func(sql string, args ...any) string {
		t.Helper()
		rows, err := r.st.conn.Query(r.ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+r.st.q(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	for name, want := range map[string]string{
		plan(dueParked(store.AllDue), r.cfg.Pipeline, []string{"kafka"}, 10):                                   "tailbox_parked_due",
		plan(readParked(), r.cfg.Pipeline, []string{"kafka"}, []string{"public.outbox"}, []string{eventID(5)}): "tailbox_parked_pkey",
		plan(nextDue, r.cfg.Pipeline, []string{"kafka"}):                                                       "tailbox_parked_due",
		plan(headsOf, r.cfg.Pipeline, []string{"kafka"}, []string{"g1"}):                                       "tailbox_parked_lane",
		plan(pageKeys, r.cfg.Pipeline, "kafka", "g1", "", 10):                                                  "tailbox_parked_lane",
		plan(blockedLanes, r.cfg.Pipeline):                                                                     "tailbox_parked_lane",
		plan(lookupParked, r.cfg.Pipeline, []string{"public.outbox"}, []string{eventID(5)}):                    "tailbox_parked_pkey",
		plan(removeDelivered, r.cfg.Pipeline, []string{"kafka"}, []string{"public.outbox"}, []string{"no"}):    "tailbox_parked_pkey",
		plan(dueParked(store.Untried), r.cfg.Pipeline, []string{"kafka"}, 10):                                  "tailbox_parked_untried",
		plan(dueParked(store.Tried), r.cfg.Pipeline, []string{"kafka"}, 10):                                    "tailbox_parked_due",
	} {
		if !strings.Contains(name, want) || strings.Contains(name, "Seq Scan") || strings.Contains(name, "rows=1000") {
			t.Errorf("plan without %s, or with too many rows:\n%s", want, name)
		}
	}
	start = time.Now()
	for i := range 50 {
		m := msg(i, "g0")
		out := r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m)}})
		if len(out.Next) != 1 {
			t.Fatalf("delivery %d: %+v", i, out)
		}
	}
	t.Logf("a delivery of a parked lane takes %v", time.Since(start)/50)
	equal(t, "blocked", len(r.reopen().Blocked), lanes)
}
