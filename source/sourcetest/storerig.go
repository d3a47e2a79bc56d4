package sourcetest

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// newStoreRig opens a database and its store.
func newStoreRig(t *testing.T, k Kind, s Setup) *rig {
	t.Helper()
	r := newRig(t, k, s)
	r.open()
	return r
}

// open opens a store, loads it, and closes it at the test's end.
func (r *rig) open() *checkpoint.Loaded {
	r.t.Helper()
	st, err := r.db.Store(r.ctx)
	r.must(err, "open store")
	return r.use(st)
}

func (r *rig) use(st checkpoint.Store) *checkpoint.Loaded {
	r.t.Helper()
	r.st = st
	return Load(r.ctx, r.t, st)
}

// reopen ends the session and starts again.
func (r *rig) reopen() *checkpoint.Loaded {
	r.t.Helper()
	r.must(r.st.Close(r.ctx), "close store")
	return r.open()
}

func (r *rig) settle(s checkpoint.Settlement) *checkpoint.Settled {
	r.t.Helper()
	return Settle(r.ctx, r.t, r.st, s)
}

func (r *rig) park(ps ...checkpoint.Parked) {
	r.t.Helper()
	r.settle(checkpoint.Settlement{Park: ps})
}

// parkWhole parks deliveries and settles their messages' rows.
func (r *rig) parkWhole(ps ...checkpoint.Parked) {
	r.t.Helper()
	r.settle(Whole(ps))
}

// due names what is due at the sinks, as sink:id, in order.
func (r *rig) due(sinks ...string) string {
	r.t.Helper()
	return Due(r.ctx, r.t, r.st, sinks...)
}

// parked shows what is parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *rig) parked() string {
	r.t.Helper()
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	var lines []string
	for i := range ps {
		p := &ps[i]
		line := p.Sink + ":" + Short(p.RowID()) + " " + string(p.State)
		if p.Blocks {
			line += "!"
		}
		if p.Due {
			line += "@"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// msg is message n of a group in the first table, at position {1, 100+n, 0}.
func (r *rig) msg(n int, group string) *outbox.Message {
	return &outbox.Message{ID: EventID(n), Type: "Counted", Topic: "order", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: r.tables[0].String(), Position: outbox.Position{Log: 1, Commit: uint64(100 + n)}, CommitTime: time.Unix(1700000000, 0)}
}

// died is the Change for one of sink kafka that is given up.
func died(m *outbox.Message, blocks bool) checkpoint.Change {
	return checkpoint.Change{Key: keyOf("kafka", m), Group: m.Group, State: checkpoint.StateDead,
		Blocks: blocks, Attempts: 15, LastError: "bad", ErrorClass: "permanent"}
}

// ask records a request as an operator does, and carries out all that are open, as the relay does.
func (r *rig) ask(verb checkpoint.Verb, sel checkpoint.Selection) (Answer, *checkpoint.Applied) {
	r.t.Helper()
	n, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: verb, Selection: sel, Reason: "why"})
	r.must(err, "ask for %s", verb)
	applied := Obey(r.ctx, r.t, r.st)
	answer, err := r.db.Answer(r.ctx, n)
	r.must(err, "read the answer to %s", verb)
	if !answer.Done {
		r.t.Errorf("request to %s is not done: %+v", verb, answer)
	}
	return answer, applied
}

// one returns the delivery that is due at a sink; there is one.
func (r *rig) one(sink string) checkpoint.Parked {
	r.t.Helper()
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{sink}, Limit: 10, Bytes: 16 << 20})
	r.must(err, "due")
	if len(ps) != 1 {
		r.t.Fatalf("due at %s: %s, want one delivery", sink, Deliveries(ps))
	}
	return ps[0]
}
