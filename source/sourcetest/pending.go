package sourcetest

import (
	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// pendingAll lists the ids of all pending rows, in chunks of limit.
func (r *rig) pendingAll(limit int) (names []string, calls int) {
	r.t.Helper()
	for cursor := ""; ; {
		rows, err := r.st.Pending(r.ctx, cursor, limit)
		r.must(err, "list pending rows")
		if len(rows.Rows) > limit {
			r.t.Fatalf("%d rows, want at most %d", len(rows.Rows), limit)
		}
		for _, ref := range rows.Rows {
			names = append(names, ref.ID)
		}
		calls++
		if cursor = rows.Cursor; cursor == "" {
			return names, calls
		}
		if calls > 10_000 {
			r.t.Fatalf("the list of pending rows does not end: %d rows so far", len(names))
		}
	}
}

// untilVisible settles the row of a message that was just read, as often as it takes to become visible. The row
// is there: it must not be taken for one that is gone.
func (r *rig) untilVisible(ms ...*outbox.Message) {
	r.t.Helper()
	var s checkpoint.Settlement
	for _, m := range ms {
		s.Rows = append(s.Rows, rowOf(m, true))
	}
	r.until("rows that were committed to be visible", func() bool {
		out := r.settle(s)
		if out.Gone != 0 {
			r.t.Fatalf("%d of %d rows that are there are taken for gone", out.Gone, len(s.Rows))
		}
		var left []checkpoint.Row
		for _, i := range out.Invisible {
			left = append(left, s.Rows[i])
		}
		s.Rows = left
		return len(left) == 0
	})
}
