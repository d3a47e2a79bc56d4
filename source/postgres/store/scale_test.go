package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// With 100,000 deliveries parked, what the relay asks every second, and what it does for each lane, still goes by index.
func TestHundredThousandParked(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	const lanes, each = 100, 1000
	start := time.Now()
	for l := range lanes {
		var ps []checkpoint.Parked
		for i := range each {
			m := pgtest.Msg(l*each+i, fmt.Sprintf("g%d", l))
			if i == 0 {
				ps = append(ps, sourcetest.Head("kafka", m, time.Duration(l%2)*time.Hour))
				continue
			}
			ps = append(ps, sourcetest.Follower("kafka", m))
		}
		r.Park(ps...)
	}
	t.Logf("parked %d in %v", lanes*each, time.Since(start))
	pgtest.Equal(t, "with a time", r.Text("SELECT count(*)::text FROM tailbox_parked WHERE next_attempt_at IS NOT NULL"), "100")
	r.Exec("UPDATE tailbox_parked SET tries = 1 WHERE next_attempt_at IS NOT NULL AND message_id <> $1", sourcetest.EventID(0))
	r.Park(sourcetest.Dead("kafka", pgtest.Msg(lanes*each, "dead"), false), sourcetest.Dead("kafka", pgtest.Msg(lanes*each+1, ""), false))
	plan := func(sql string, args ...any) string {
		t.Helper()
		rows, err := r.St.Conn.Query(r.Ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+r.St.SQL(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
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
		plan(pgstore.DueParked(store.AllDue), r.Cfg.Pipeline, []string{"kafka"}, 10):                                                                       "tailbox_parked_due",
		plan(pgstore.ReadParked(), r.Cfg.Pipeline, []string{"kafka"}, []string{"public.outbox"}, []string{sourcetest.EventID(5)}):                          "tailbox_parked_pkey",
		plan(pgstore.NextDue, r.Cfg.Pipeline, []string{"kafka"}):                                                                                           "tailbox_parked_due",
		plan(pgstore.HeadsOf, r.Cfg.Pipeline, []string{"kafka"}, []string{"g1"}):                                                                           "tailbox_parked_lane",
		plan(pgstore.PageKeys, r.Cfg.Pipeline, "kafka", "g1", "", 10):                                                                                      "tailbox_parked_lane",
		plan(pgstore.BlockedLanes, r.Cfg.Pipeline):                                                                                                         "tailbox_parked_lane",
		plan(pgstore.LookupParked, r.Cfg.Pipeline, []string{"public.outbox"}, []string{sourcetest.EventID(5)}):                                             "tailbox_parked_pkey",
		plan(pgstore.RemoveDelivered, r.Cfg.Pipeline, []string{"kafka"}, []string{"public.outbox"}, []string{"no"}):                                        "tailbox_parked_pkey",
		plan(pgstore.DueParked(store.Untried), r.Cfg.Pipeline, []string{"kafka"}, 10):                                                                      "tailbox_parked_untried",
		plan(pgstore.DueParked(store.Tried), r.Cfg.Pipeline, []string{"kafka"}, 10):                                                                        "tailbox_parked_due",
		plan(pgstore.NewestDead, r.Cfg.Pipeline, nil, nil, nil, nil, nil, "", "", []byte{}, "-infinity", "infinity", "infinity", "", "", "", nil, nil, 10): "tailbox_parked_dead",
		plan(pgstore.CountDead, r.Cfg.Pipeline, 1000, true, true, true, 10):                                                                                "tailbox_parked_dead",
	} {
		if !strings.Contains(name, want) || strings.Contains(name, "Seq Scan") || strings.Contains(name, "rows=1000") {
			t.Errorf("plan without %s, or with too many rows:\n%s", want, name)
		}
	}
	start = time.Now()
	for i := range 50 {
		m := pgtest.Msg(i, "g0")
		out := r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
		if len(out.Next) != 1 {
			t.Fatalf("delivery %d: %+v", i, out)
		}
	}
	t.Logf("a delivery of a parked lane takes %v", time.Since(start)/50)
	pgtest.Equal(t, "blocked", len(r.Reopen().Blocked), lanes)
}
