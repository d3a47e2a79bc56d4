package sourcetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// clean carries a whole clean-up out, and returns how many rows it removed, and the most that one step did.
func (r *rig) clean() (removed, most int) {
	r.t.Helper()
	cleaner, ok := r.st.(checkpoint.Cleaner)
	if !ok {
		r.t.Fatal("the store is no checkpoint.Cleaner")
	}
	cursor := ""
	for range 1000 {
		n, next, err := cleaner.Clean(r.ctx, cursor)
		r.must(err, "clean up")
		removed, most = removed+n, max(most, n)
		if cursor = next; next == "" {
			return removed, most
		}
	}
	r.t.Fatal("a clean-up does not end")
	return 0, 0
}

// testRetention: delivered rows go when their time is over, in bounded steps; what is pending, retried, dead, locked, parked or
// younger stays, and so does what another step of the relay may still need.
func testRetention(t *testing.T, k Kind) {
	old, young, kept := table("tailbox", "outbox"), table("tailbox", "young"), table("tailbox", "other")
	old.Retention, young.Retention = time.Millisecond, time.Hour
	r := newStoreRig(t, k, Setup{Tables: []Table{old, young, kept}})
	const n = 2300
	var s checkpoint.Settlement
	for first := 100; first < 100+n; first += 100 {
		r.insert(rows(first, 100, "")...)
	}
	for i := 100; i < 100+n; i++ {
		s.Rows = append(s.Rows, RowOf(r.msg(i, ""), false))
	}
	r.settle(s)
	r.insert(rows(1, 6, "g")...)
	one, two, three, four := r.msg(1, "g"), r.msg(2, "h"), r.msg(3, "i"), r.msg(4, "j")
	r.parkWhole(Head("kafka", one, 0), Dead("kafka", two, true), Follower("kafka", three))
	r.park(Dead("kafka", four, false)) // and its row is settled all the same
	r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(four, false), RowOf(r.msg(5, ""), false)}})
	for _, table := range r.tables[1:] {
		m := r.msg(7, "")
		m.Table = table.String()
		r.must(r.app.Insert(r.ctx, table, row(7, "")), "insert")
		r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(m, false)}})
	}
	other := r.conn()
	r.must(other.Begin(r.ctx), "begin")
	r.must(other.Update(r.ctx, r.tables[0], row(5, "")), "update")
	removed, most := 0, 0
	r.until("all old rows but the locked one to be removed", func() bool {
		more, step := r.clean()
		removed, most = removed+more, max(most, step)
		return removed >= n
	})
	equal(t, "removed", removed, n)
	if most > 1000 {
		t.Errorf("one step removed %d rows, want at most 1000", most)
	}
	const stay = "1 retrying 1 boom, 2 dead 15 bad, 3 waiting 0, 4 delivered 1 !, 5 delivered 1 !, 6 pending 0"
	equal(t, "rows that stay, one of them locked", r.rows(), stay)
	r.must(other.Commit(r.ctx), "commit")
	r.until("the row that was locked to be removed", func() bool {
		r.clean()
		return r.rows() == strings.Replace(stay, "5 delivered 1 !, ", "", 1)
	})
	equal(t, "rows that are young", r.rowsOf(r.tables[1]), "7 delivered 1 !")
	equal(t, "rows of a table without a retention", r.rowsOf(r.tables[2]), "7 delivered 1 !")
	// A replay that is delivered makes its row old again, and one that an operator resets is pending, whatever its time is.
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", one), Delivered("kafka", two)}})
	r.must(r.db.Reset(r.ctx, r.tables[0], EventID(2)), "reset")
	r.until("what was delivered later to be removed", func() bool {
		r.clean()
		return r.rows() == "2 pending 1 !, 3 waiting 0, 4 delivered 1 !, 6 pending 0" || r.rows() == "2 pending 16 !, 3 waiting 0, 4 delivered 1 !, 6 pending 0"
	})
	// A crash in the middle loses nothing but its place.
	r.reopen()
	r.clean()
	equal(t, "rows after a restart", len(strings.Split(r.rows(), ", ")), 4)
}

// testTenants: rows of other tenants are neither pending here nor removed.
func testTenants(t *testing.T, k Kind) {
	ours := table("tailbox", "outbox")
	ours.Retention, ours.Tenants = time.Millisecond, []string{"a", "it's", ""}
	r := newStoreRig(t, k, Setup{Tables: []Table{ours}})
	for i, tenant := range []string{"a", "b", "it's", "", "A", "a", "b"} {
		m := row(i+1, "g")
		m.Tenant = tenant
		r.insert(m)
	}
	pending, err := r.st.Pending(r.ctx, "", 100)
	r.must(err, "list pending rows")
	var refs []string
	for _, ref := range pending.Rows {
		refs = append(refs, Short(ref.ID))
	}
	equal(t, "pending", strings.Join(refs, " "), "1 3 4 6")
	var all []checkpoint.RowRef
	for i := 1; i <= 7; i++ {
		all = append(all, checkpoint.RowRef{Table: r.tables[0].String(), ID: EventID(i)})
	}
	found, _, err := r.st.Fetch(r.ctx, all, outbox.Position{Log: 1, Commit: 1000}, 1<<20)
	r.must(err, "fetch")
	equal(t, "fetched", len(found), 4)
	for _, m := range found {
		if m.Tenant != "a" && m.Tenant != "it's" && m.Tenant != "" {
			t.Errorf("message %s of tenant %q is fetched", Short(m.ID), m.Tenant)
		}
	}
	// Others deliver theirs.
	for i := 1; i <= 7; i++ {
		r.settle(checkpoint.Settlement{Rows: []checkpoint.Row{RowOf(r.msg(i, ""), false)}})
	}
	r.until("our rows to be removed", func() bool {
		r.clean()
		return len(strings.Split(r.rows(), ", ")) <= 3
	})
	r.clean()
	equal(t, "rows of others", r.rows(), "2 delivered 1 !, 5 delivered 1 !, 7 delivered 1 !")
}

// testPriority: among what is due, the higher priority comes first; the order within a group stays.
func testPriority(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("tailbox", "outbox")}})
	message := func(n int, group string, priority int32) *outbox.Message {
		m := r.msg(n, group)
		m.Priority = priority
		return m
	}
	r.park(Head("kafka", message(1, "", 0), 0), Head("kafka", message(2, "", -1), 0), Head("kafka", message(3, "g", 0), 0),
		Follower("kafka", message(4, "g", 9)), Head("kafka", message(5, "h", 5), 0), Head("kafka", message(6, "", 5), 0),
		Head("kafka", message(7, "", 9), time.Hour))
	equal(t, "due", r.due("kafka"), "kafka:5 kafka:6 kafka:1 kafka:3 kafka:2")
	for limit, want := range map[int]string{1: "kafka:5", 2: "kafka:5 kafka:6", 4: "kafka:5 kafka:6 kafka:1 kafka:3"} {
		ps, next, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: limit, Bytes: 16 << 20})
		r.must(err, "due")
		equal(t, fmt.Sprintf("%d of those due", limit), Deliveries(ps), want)
		if next <= 0 || next > time.Second {
			t.Errorf("%d of those due: the next one in %v, want more soon", limit, next)
		}
	}
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", message(3, "g", 0))}})
	equal(t, "due, with the next of its group", r.due("kafka"), "kafka:4 kafka:5 kafka:6 kafka:1 kafka:2")
}
