//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestResetByHand sets rows that were delivered back to pending with plain SQL: each is delivered once more, within twice
// the interval of source.reconcile, and marked again.
func TestResetByHand(t *testing.T) {
	const reconcile = 3 * time.Second
	h := newHook(t, Options{Source: []string{"reconcile: " + reconcile.String()}}, "")
	h.MustCommand("init")
	load := &Load{Rate: 500, Delivered: h.ledger.Count} // goes on all the while
	load.Run(h.Bed)
	r := h.Start(nil)
	for round := range 3 {
		ids := h.insertEvents(fmt.Sprint("reset", round), 20)
		delivered := func(want int) func() string {
			return func() string {
				for _, id := range ids {
					if got, _ := h.ledger.Times(id); got < want {
						return fmt.Sprintf("message %d was delivered %d times, want %d", id, got, want)
					}
				}
				return ""
			}
		}
		h.Eventually(20*time.Second, delivered(1))
		marked := func() string {
			if n := Ask[int](h.Bed, `SELECT count(*) FROM events WHERE id = ANY($1) AND status <> 'delivered'`, ids); n > 0 {
				return fmt.Sprintf("%d rows are not marked as delivered", n)
			}
			return ""
		}
		h.Eventually(20*time.Second, marked)
		h.ledger.Forgive(ids...)
		h.ledger.Renumber(ids...)
		h.Exec(`UPDATE events SET status = 'pending', delivered_at = NULL WHERE id = ANY($1)`, ids)
		began := time.Now()
		h.Eventually(time.Minute, delivered(2))
		took := time.Since(began)
		t.Logf("delivered again after %v", took.Round(time.Millisecond))
		if took > 2*reconcile {
			t.Errorf("delivered again: after %v, want at most %v", took, 2*reconcile)
		}
		h.Eventually(20*time.Second, marked)
		if late := delivered(3)(); late == "" {
			t.Error("messages came a third time")
		}
	}
	load.Stop()
	h.complete(r)
}
