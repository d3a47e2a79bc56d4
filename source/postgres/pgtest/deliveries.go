package pgtest

import (
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sourcetest"
)

// Foreign has characters that LATIN1 lacks, as endpoints' texts and ours may: an emoji, Chinese, the replacement character, an ellipsis.
const Foreign = "500 \U0001F4A5 \u4e2d\uFFFD\u2026 \u00e4"

// InsertEvents inserts n events of shape debezium.
func InsertEvents(r *Rig, first, n int) {
	r.T.Helper()
	r.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid,
		'order', (i % 7)::text, 'OrderPlaced', jsonb_build_object('i', i) FROM generate_series($1::int, $2::int) i`, first, first+n-1)
}

// Msg is message i of a group in table public.outbox, at position {1, 100+i, 0}.
func Msg(i int, group string) *outbox.Message {
	return &outbox.Message{ID: sourcetest.EventID(i), Type: "T", Topic: "topic", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: "public.outbox", Position: outbox.Position{Log: 1, Commit: uint64(100 + i)}, CommitTime: time.Unix(1700000000, 0)}
}
