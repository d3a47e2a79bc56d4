package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// EventID is the n-th id of a table with ids of the default type.
func EventID(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// Deliveries names deliveries, as sink:number of the id.
func Deliveries(ps []checkpoint.Parked) string {
	var names []string
	for i := range ps {
		names = append(names, ps[i].Sink+":"+Short(ps[i].Message.ID))
	}
	return strings.Join(names, " ")
}

// LanesText names lanes, as sink/group.
func LanesText(lanes []checkpoint.Lane) string {
	var names []string
	for _, l := range lanes {
		names = append(names, l.Sink+"/"+l.Group)
	}
	return strings.Join(names, " ")
}

// lanesText names lanes, sorted.
func lanesText(lanes []checkpoint.Lane) string {
	return LanesText(slices.SortedFunc(slices.Values(lanes), func(a, b checkpoint.Lane) int {
		return strings.Compare(a.Sink+"/"+a.Group, b.Sink+"/"+b.Group)
	}))
}

// Head is a delivery that is retried after d.
func Head(sink string, m *outbox.Message, d time.Duration) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateRetrying, Blocks: m.Group != "", Attempts: 1, Due: true,
		NextAttempt: d, LastError: "boom", ErrorClass: "rejected"}
}

// Follower is a delivery that waits behind a Head.
func Follower(sink string, m *outbox.Message) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateWaiting, Blocks: true}
}

// Dead is a delivery that was given up.
func Dead(sink string, m *outbox.Message, blocks bool) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, Blocks: blocks, Attempts: 15, LastError: "bad",
		ErrorClass: "permanent"}
}

func keyOf(sink string, m *outbox.Message) checkpoint.Key {
	return checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}
}

// Delivered is the Change for a delivery that succeeded.
func Delivered(sink string, m *outbox.Message) checkpoint.Change {
	return checkpoint.Change{Key: keyOf(sink, m), Group: m.Group, Delivered: true}
}

// Retried is the Change for one that failed again.
func Retried(sink string, m *outbox.Message, attempts int, d time.Duration) checkpoint.Change {
	return checkpoint.Change{Key: keyOf(sink, m), Group: m.Group, State: checkpoint.StateRetrying,
		Blocks: m.Group != "", Attempts: attempts, Due: true, NextAttempt: d, LastError: "again", ErrorClass: "rejected"}
}

// RowOf is the Row of a message that is settled.
func RowOf(m *outbox.Message, parked bool) checkpoint.Row {
	return checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: parked}
}

// Load loads a store, and closes it at the test's end.
func Load(ctx context.Context, t testing.TB, st checkpoint.Store) *checkpoint.Loaded {
	t.Helper()
	t.Cleanup(func() { _ = st.Close(context.WithoutCancel(ctx)) })
	loaded, err := st.Load(ctx)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return loaded
}

// Settle settles, which may not fail.
func Settle(ctx context.Context, t testing.TB, st checkpoint.Store, s checkpoint.Settlement) *checkpoint.Settled {
	t.Helper()
	out, err := st.Settle(ctx, &s)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return out
}

// Whole parks deliveries and settles their messages' rows.
func Whole(ps []checkpoint.Parked) checkpoint.Settlement {
	s := checkpoint.Settlement{Park: ps}
	for _, p := range ps {
		s.Rows = append(s.Rows, RowOf(p.Message, true))
	}
	return s
}

// Due names what is due at the sinks, as sink:id, in order.
func Due(ctx context.Context, t testing.TB, st checkpoint.Store, sinks ...string) string {
	t.Helper()
	ps, _, err := st.Due(ctx, &checkpoint.DueQuery{Sinks: sinks, Limit: 100, Bytes: 16 << 20})
	if err != nil {
		t.Fatalf("due: %v", err)
	}
	return Deliveries(ps)
}

// Obey carries out all open requests, as the relay does, and returns what its transactions did together.
func Obey(ctx context.Context, t testing.TB, st checkpoint.Store) *checkpoint.Applied {
	t.Helper()
	must := func(err error, what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	all := &checkpoint.Applied{}
	requests, err := st.Requests(ctx)
	must(err, "read requests")
	for i := range requests {
		for rounds := 0; ; rounds++ {
			lanes, err := st.Lanes(ctx, &requests[i], 50)
			must(err, "name the lanes of a request")
			if len(lanes) > 50 {
				t.Fatalf("a request names %d lanes, want at most 50", len(lanes))
			}
			applied, err := st.Apply(ctx, &requests[i], lanes)
			must(err, "apply a request")
			all.Changed, all.Refused = all.Changed+applied.Changed, applied.Refused
			all.Open, all.Blocked = append(all.Open, applied.Open...), append(all.Blocked, applied.Blocked...)
			if applied.Done {
				break
			}
			if rounds > 1000 {
				t.Fatalf("request %d to %s does not end", requests[i].ID, requests[i].Verb)
			}
		}
	}
	return all
}
