package pgtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// Foreign has texts of endpoints, and our own, that LATIN1 lacks: an emoji, Chinese, what stands for bad bytes, an ellipsis.
const Foreign = "500 \U0001F4A5 \u4e2d\uFFFD\u2026 \u00e4"

// InsertEvents inserts n events of shape debezium.
func InsertEvents(r *Rig, first, n int) {
	r.T.Helper()
	r.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid,
		'order', (i % 7)::text, 'OrderPlaced', jsonb_build_object('i', i) FROM generate_series($1::int, $2::int) i`, first, first+n-1)
}

// EventID is the id of message i.
func EventID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// Deliveries names deliveries, as sink:id.
func Deliveries(ps []checkpoint.Parked) string {
	var names []string
	for i := range ps {
		names = append(names, ps[i].Sink+":"+Short(ps[i].Message.ID))
	}
	return strings.Join(names, " ")
}

// Short is the number in an EventID.
func Short(id string) string { return strings.TrimLeft(id[strings.LastIndex(id, "-")+1:], "0") }

// Msg is message i of a group in table public.outbox, at position {1, 100+i, 0}.
func Msg(i int, group string) *outbox.Message {
	return &outbox.Message{ID: EventID(i), Type: "T", Topic: "topic", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: "public.outbox", Position: outbox.Position{Log: 1, Commit: uint64(100 + i)}, CommitTime: time.Unix(1700000000, 0)}
}

// Head is a delivery that is retried after d, follower one that waits behind it, dead one under hold.
func Head(sink string, m *outbox.Message, d time.Duration) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateRetrying, Blocks: m.Group != "", Attempts: 1, Due: true,
		NextAttempt: d, LastError: "boom", ErrorClass: "rejected"}
}

// Follower is a delivery that waits behind its head.
func Follower(sink string, m *outbox.Message) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateWaiting, Blocks: true}
}

// Dead is a delivery that was given up.
func Dead(sink string, m *outbox.Message, blocks bool) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, Blocks: blocks, Attempts: 15, LastError: "bad",
		ErrorClass: "permanent"}
}

// Delivered is the Change for a delivery that succeeded.
func Delivered(sink string, m *outbox.Message) checkpoint.Change {
	return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}, Group: m.Group, Delivered: true}
}

// Retried is the Change for one that failed again.
func Retried(sink string, m *outbox.Message, attempts int, d time.Duration) checkpoint.Change {
	return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}, Group: m.Group, State: checkpoint.StateRetrying,
		Blocks: m.Group != "", Attempts: attempts, Due: true, NextAttempt: d, LastError: "again", ErrorClass: "rejected"}
}

// RowOf is the Row of a message that is settled.
func RowOf(m *outbox.Message, parked bool) checkpoint.Row {
	return checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: parked}
}

// LanesText names lanes, as sink/group.
func LanesText(lanes []checkpoint.Lane) string {
	var names []string
	for _, l := range lanes {
		names = append(names, l.Sink+"/"+l.Group)
	}
	return strings.Join(names, " ")
}
