package store_test

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/test/servers"
)

// 100,000 delivered rows go in steps of at most 1,000, each a short transaction, beside those that stay; a relay that ends in the
// middle leaves a smaller table, and the next one begins at its start.
func TestHundredThousandDelivered(t *testing.T) {
	t.Parallel()
	table := pgtest.Shape("tailbox", "outbox")
	table.Retention = time.Hour
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, table)
	const n = 100_000
	r.Exec(`INSERT INTO outbox (id, type, payload, status, delivered_at)
		SELECT gen_random_uuid(), 'T', 'x', CASE WHEN i % 10 = 0 THEN (ARRAY['pending', 'retrying', 'waiting', 'dead', 'delivered'])[1 + i / 10 % 5] ELSE 'delivered' END,
			now() - CASE WHEN i % 10 = 0 AND i / 10 % 5 = 4 THEN interval '50 minutes' ELSE interval '2 hours' END FROM generate_series(1, 100000) i`)
	steps, removed, cursor, longest := 0, 0, "", time.Duration(0)
	for {
		began := time.Now()
		some, next, err := r.St.Clean(r.Ctx, cursor)
		if err != nil {
			t.Fatal(err)
		}
		if some > 1000 {
			t.Fatalf("a step removed %d rows", some)
		}
		longest = max(longest, time.Since(began))
		steps, removed, cursor = steps+1, removed+some, next
		if steps == 40 { // the relay ends
			r.Reopen()
			cursor = ""
			continue
		}
		if cursor == "" {
			break
		}
	}
	t.Logf("%d steps, the longest took %v", steps, longest)
	pgtest.Equal(t, "removed", removed, n/10*9)
	pgtest.Equal(t, "rows of each status that stay", r.Text(`SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM outbox GROUP BY 1) s`),
		"dead 2000, delivered 2000, pending 2000, retrying 2000, waiting 2000")
}
