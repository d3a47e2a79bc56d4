package sourcetest

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// probed names what a probe of a sink takes, in order.
func (r *rig) probed(sink string, limit int) string {
	r.t.Helper()
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{sink}, Limit: limit, Bytes: 16 << 20, Probe: true})
	r.must(err, "due")
	return Deliveries(ps)
}

// tick waits until the database's clock has moved on.
func (r *rig) tick() {
	r.t.Helper()
	read := func() time.Time {
		now, err := r.st.Ping(r.ctx)
		r.must(err, "ping")
		return now
	}
	before := read()
	r.until("the database's clock to move on", func() bool { return read().Sub(before) > 2*time.Millisecond })
}

// tried is a delivery that is due for so long and was tried so often.
func tried(p checkpoint.Parked, tries int, due time.Duration) checkpoint.Parked {
	p.Tries, p.Failed, p.NextAttempt = tries, checkpoint.Failure{Epoch: 1, Call: 1}, -due
	return p
}

// testDueProbe: a probe takes what was never tried, in the order in which it became due, then what was tried longest ago.
func testDueProbe(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	group := func(n int) string { return "g" + string(rune('a'+n)) }
	for n := 1; n <= 3; n++ {
		r.park(tried(Head("kafka", r.msg(n, group(n)), 0), n, time.Hour))
		r.tick()
	}
	for _, u := range []struct {
		n   int
		due time.Duration
	}{{11, 50 * time.Minute}, {10, 40 * time.Minute}, {12, 30 * time.Minute}, {13, -time.Hour}} {
		r.park(Head("kafka", r.msg(u.n, group(u.n)), -u.due))
	}
	r.park(Head("other", r.msg(20, "other"), 0))
	equal(t, "any", r.due("kafka"), "kafka:1 kafka:2 kafka:3 kafka:10 kafka:11 kafka:12")
	equal(t, "probe", r.probed("kafka", 100), "kafka:10 kafka:11 kafka:12 kafka:1 kafka:2 kafka:3")
	back := func(n, tries int, due time.Duration) {
		t.Helper()
		c := Retried("kafka", r.msg(n, group(n)), 1, -due)
		c.Tries = tries
		r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{c}})
	}
	// The first one is tried again, and due longer than all others; the second one is put back untried.
	back(1, 2, 2*time.Hour)
	r.tick()
	back(2, 2, time.Minute)
	equal(t, "tried again, and put back", r.probed("kafka", 100), "kafka:10 kafka:11 kafka:12 kafka:2 kafka:3 kafka:1")
	equal(t, "some", r.probed("kafka", 5), "kafka:10 kafka:11 kafka:12 kafka:2 kafka:3")
	// What is put back untried lets the others go first.
	for i, want := range []int{11, 10, 12, 11, 10} {
		equal(t, "the first", r.probed("kafka", 1), "kafka:"+Short(EventID(want)))
		back(want, 0, time.Minute-time.Duration(i)*time.Second)
	}
	urgent := r.msg(15, "urgent")
	urgent.Priority = 5
	r.park(Head("kafka", urgent, 0))
	equal(t, "priority", r.probed("kafka", 4), "kafka:15 kafka:10 kafka:11 kafka:12")
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{Delivered("kafka", urgent)}})
	// What has failed, or is replayed, changes sides.
	back(11, 1, time.Minute)
	back(3, 0, time.Minute)
	equal(t, "changed", r.probed("kafka", 100), "kafka:3 kafka:10 kafka:12 kafka:2 kafka:1 kafka:11")
}

// testDueProbeAmongMany: a probe finds what was never tried however many tried ones are due longer.
func testDueProbeAmongMany(t *testing.T, k Kind) {
	r := newStoreRig(t, k, Setup{Tables: []Table{table("debezium", "outbox")}})
	var ps []checkpoint.Parked
	for n := 1; n <= 2500; n++ {
		ps = append(ps, tried(Head("kafka", r.msg(n, ""), 0), 1, time.Hour))
	}
	r.park(ps...)
	r.park(Head("kafka", r.msg(3000, ""), 0))
	equal(t, "probe", r.probed("kafka", 1), "kafka:"+Short(EventID(3000)))
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 8, Bytes: 16 << 20, Probe: true})
	r.must(err, "due")
	if len(ps) != 8 || ps[0].Message.ID != EventID(3000) || ps[1].Tries != 1 {
		t.Errorf("probe of 8 finds %s", Deliveries(ps))
	}
}
