package sourcetest

import (
	"context"
	"slices"
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
	r.t.Cleanup(func() { _ = st.Close(context.WithoutCancel(r.ctx)) })
	r.st = st
	loaded, err := st.Load(r.ctx)
	r.must(err, "load")
	return loaded
}

// reopen ends the session and starts again.
func (r *rig) reopen() *checkpoint.Loaded {
	r.t.Helper()
	r.must(r.st.Close(r.ctx), "close store")
	return r.open()
}

func (r *rig) settle(s checkpoint.Settlement) *checkpoint.Settled {
	r.t.Helper()
	out, err := r.st.Settle(r.ctx, &s)
	r.must(err, "settle")
	return out
}

func (r *rig) park(ps ...checkpoint.Parked) {
	r.t.Helper()
	r.settle(checkpoint.Settlement{Park: ps})
}

// parkWhole parks deliveries and settles their messages' rows.
func (r *rig) parkWhole(ps ...checkpoint.Parked) {
	r.t.Helper()
	s := checkpoint.Settlement{Park: ps}
	for _, p := range ps {
		s.Rows = append(s.Rows, rowOf(p.Message, true))
	}
	r.settle(s)
}

// due names what is due at the sinks, as sink:id, in order.
func (r *rig) due(sinks ...string) string {
	r.t.Helper()
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: sinks, Limit: 100, Bytes: 16 << 20})
	r.must(err, "due")
	return deliveries(ps)
}

func deliveries(ps []checkpoint.Parked) string {
	var names []string
	for i := range ps {
		names = append(names, ps[i].Sink+":"+short(ps[i].Message.ID))
	}
	return strings.Join(names, " ")
}

// parked shows what is parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *rig) parked() string {
	r.t.Helper()
	ps, err := r.db.Parked(r.ctx)
	r.must(err, "read parked deliveries")
	var lines []string
	for i := range ps {
		p := &ps[i]
		line := p.Sink + ":" + short(p.RowID()) + " " + string(p.State)
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
	return &outbox.Message{ID: id(n), Type: "Counted", Topic: "order", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: r.tables[0].String(), Position: outbox.Position{Log: 1, Commit: uint64(100 + n)}, CommitTime: time.Unix(1700000000, 0)}
}

// head is a delivery that is retried after d, follower one that waits behind it, dead one that is given up.
func head(sink string, m *outbox.Message, d time.Duration) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateRetrying, Blocks: m.Group != "", Attempts: 1, Due: true,
		NextAttempt: d, LastError: "boom", ErrorClass: "rejected"}
}

func follower(sink string, m *outbox.Message) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateWaiting, Blocks: true}
}

func dead(sink string, m *outbox.Message, blocks bool) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, Blocks: blocks, Attempts: 15, LastError: "bad",
		ErrorClass: "permanent"}
}

func keyOf(sink string, m *outbox.Message) checkpoint.Key {
	return checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}
}

// delivered is the Change for a delivery that succeeded.
func delivered(sink string, m *outbox.Message) checkpoint.Change {
	return checkpoint.Change{Key: keyOf(sink, m), Group: m.Group, Delivered: true}
}

// retried is the Change for one that failed again.
func retried(sink string, m *outbox.Message, attempts int, d time.Duration) checkpoint.Change {
	return checkpoint.Change{Key: keyOf(sink, m), Group: m.Group, State: checkpoint.StateRetrying,
		Blocks: m.Group != "", Attempts: attempts, Due: true, NextAttempt: d, LastError: "again", ErrorClass: "rejected"}
}

// died is the Change for one of sink kafka that is given up.
func died(m *outbox.Message, blocks bool) checkpoint.Change {
	return checkpoint.Change{Key: keyOf("kafka", m), Group: m.Group, State: checkpoint.StateDead,
		Blocks: blocks, Attempts: 15, LastError: "bad", ErrorClass: "permanent"}
}

// rowOf is the Row of a message that is settled.
func rowOf(m *outbox.Message, parked bool) checkpoint.Row {
	return checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: parked}
}

// lanesText names lanes, as sink/group, sorted.
func lanesText(lanes []checkpoint.Lane) string {
	var names []string
	for _, l := range lanes {
		names = append(names, l.Sink+"/"+l.Group)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// ask records a request as an operator does, and carries out all that are open, as the relay does.
func (r *rig) ask(verb checkpoint.Verb, sel checkpoint.Selection) (Answer, *checkpoint.Applied) {
	r.t.Helper()
	n, err := r.db.Ask(r.ctx, &checkpoint.Request{Verb: verb, Selection: sel, Reason: "why"})
	r.must(err, "ask for %s", verb)
	applied := r.obey()
	answer, err := r.db.Answer(r.ctx, n)
	r.must(err, "read the answer to %s", verb)
	if !answer.Done {
		r.t.Errorf("request to %s is not done: %+v", verb, answer)
	}
	return answer, applied
}

// obey carries out all open requests, and returns what its transactions did together.
func (r *rig) obey() *checkpoint.Applied {
	r.t.Helper()
	all := &checkpoint.Applied{}
	requests, err := r.st.Requests(r.ctx)
	r.must(err, "read requests")
	for i := range requests {
		for rounds := 0; ; rounds++ {
			lanes, err := r.st.Lanes(r.ctx, &requests[i], 50)
			r.must(err, "name the lanes of a request")
			if len(lanes) > 50 {
				r.t.Fatalf("a request names %d lanes, want at most 50", len(lanes))
			}
			applied, err := r.st.Apply(r.ctx, &requests[i], lanes)
			r.must(err, "apply a request")
			all.Changed, all.Refused = all.Changed+applied.Changed, applied.Refused
			all.Open, all.Blocked = append(all.Open, applied.Open...), append(all.Blocked, applied.Blocked...)
			if applied.Done {
				break
			}
			if rounds > 1000 {
				r.t.Fatalf("request %d to %s does not end", requests[i].ID, requests[i].Verb)
			}
		}
	}
	return all
}

// one returns the delivery that is due at a sink; there is one.
func (r *rig) one(sink string) checkpoint.Parked {
	r.t.Helper()
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{sink}, Limit: 10, Bytes: 16 << 20})
	r.must(err, "due")
	if len(ps) != 1 {
		r.t.Fatalf("due at %s: %s, want one delivery", sink, deliveries(ps))
	}
	return ps[0]
}
