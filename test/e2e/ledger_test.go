package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestLedgerSeesBreaches breaks each promise once: an oracle that sees nothing proves nothing.
func TestLedgerSeesBreaches(t *testing.T) {
	t.Parallel()
	position := func(txn, n int) string { return fmt.Sprintf("%08x-%016x-%08x", 1, txn, n) }
	deliver := func(id, txn, n int) Delivery {
		return Delivery{ID: fmt.Sprint(id), Group: "g", Position: position(txn, n), Payload: fmt.Appendf(nil, `{"n":%d,"g":"g"}`, id)}
	}
	// Messages 1 and 2 of one transaction, then 3 of another.
	one, two, three := deliver(1, 10, 0), deliver(2, 10, 1), deliver(3, 20, 0)
	for name, test := range map[string]struct {
		steps func(*Ledger)
		want  string
	}{
		"all in order":        {func(l *Ledger) { l.Deliver(false, one, two, three) }, ""},
		"a message missing":   {func(l *Ledger) { l.Deliver(false, one, two) }, "lost"},
		"none":                {func(*Ledger) {}, "lost"},
		"a later one first":   {func(l *Ledger) { l.Deliver(false, one, three, two) }, "overtaken"},
		"a gap":               {func(l *Ledger) { l.Deliver(false, one, three) }, "overtaken"},
		"twice for no reason": {func(l *Ledger) { l.Deliver(false, one, one, two, three) }, "repeated"},
		"again after a kill":  {func(l *Ledger) { l.Deliver(false, one, two); l.Killed([]int64{2, 3}); l.Deliver(false, two, three) }, ""},
		"again though settled": {func(l *Ledger) {
			l.Deliver(false, one, two)
			l.Killed([]int64{2, 3})
			l.Deliver(false, one, two, three)
		}, "repeated"},
		"twice after one kill": {func(l *Ledger) {
			l.Deliver(false, one, two)
			l.Killed([]int64{2, 3})
			l.Deliver(false, two, two, three)
		}, "repeated"},
		"again after a lie":                      {func(l *Ledger) { l.Deliver(true, one); l.Deliver(false, one, two, three) }, ""},
		"answers lost unseen":                    {func(l *Ledger) { l.Loose(true); l.Deliver(false, one, two, one, two, three) }, ""},
		"another position":                       {func(l *Ledger) { l.Deliver(true, one); l.Deliver(false, deliver(1, 10, 5), two, three) }, "unstable"},
		"a wrong position":                       {func(l *Ledger) { l.Deliver(false, deliver(1, 11, 0), two, three) }, "unstable"},
		"another's payload":                      {func(l *Ledger) { d := one; d.Payload = two.Payload; l.Deliver(false, d, two, three) }, "changed"},
		"another's group":                        {func(l *Ledger) { d := one; d.Group = "h"; l.Deliver(false, d, two, three) }, "changed"},
		"an id that is none":                     {func(l *Ledger) { d := one; d.ID = "x"; l.Deliver(false, d, one, two, three) }, "changed"},
		"a message nobody wrote":                 {func(l *Ledger) { l.Deliver(false, one, two, three, deliver(9, 30, 0)) }, "invented"},
		"removed by its own write":               {func(l *Ledger) { removed(l, one, two, three) }, ""},
		"by time: the clock agrees with the log": {func(l *Ledger) { l.Deliver(false, three, one, two) }, "overtaken"},
		"by time: the clock contradicts the log": {func(l *Ledger) { l.Deliver(false, three, one, two) }, ""},
		"by time: rows of a transaction change":  {func(l *Ledger) { l.Deliver(false, two, one, three) }, "overtaken"},
		"by time: a gap that the clock allows":   {func(l *Ledger) { l.Deliver(false, three) }, "lost"},
	} {
		truth := &Truth{groups: map[string][]int64{"g": {1, 2, 3}}, messages: map[int64]committed{
			1: {group: "g", index: 0, txn: 10, n: 0}, 2: {group: "g", index: 1, txn: 10, n: 1}, 3: {group: "g", index: 2, txn: 20}}}
		if strings.HasPrefix(name, "by time: ") {
			truth.ByTime, truth.times = true, map[uint64]int64{10: 7, 20: 7}
			if strings.Contains(name, "agrees") {
				truth.times[20] = 8
			}
		}
		l := NewLedger(name)
		test.steps(l)
		l.Check(truth, true)
		if test.want == "" && len(l.breaches) > 0 || test.want != "" && l.breaches[test.want] == 0 {
			t.Errorf("%s: breaches %v %v, want %q", name, l.breaches, l.examples, test.want)
		}
	}
}

// removed delivers messages whose rows the application removed: the database does not show that they are not settled.
func removed(l *Ledger, one, two, three Delivery) {
	one.Payload = []byte(`{"n":1,"g":"g","removed":true}`)
	l.Deliver(false, one)
	l.Killed([]int64{2, 3})
	l.Deliver(false, one, two, three)
}
