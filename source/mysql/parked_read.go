package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// parkedColumns are what readParked reads, of alias p.
const parkedColumns = `p.sink, p.source_table, p.message_group, p.position, p.message_id, p.state, p.blocks, p.attempts,
	TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), p.next_attempt_at), p.last_error, p.error_class, p.replays, p.sent_id, p.in_table,
	p.type, p.topic, p.` + "`key`" + `, p.payload, p.headers, p.fields, p.tenant, p.content_type, p.idempotency_key, p.correlation_id,
	p.priority, p.max_attempts, p.available_at, p.created_at, p.commit_time, p.fault_class, p.fault_reason,
	p.tries, p.failed_epoch, p.failed_call`

// parkedWidth is the number of parkedColumns: further columns of a query begin there.
const parkedWidth = 34

// readParked makes a delivery of a row.
func readParked(r row) (checkpoint.Parked, error) {
	m := &outbox.Message{ID: r.text(4), Type: r.text(14), Topic: r.text(15), Group: r.text(2), Key: r.bytes(16), Payload: r.bytes(17),
		Tenant: r.text(20), ContentType: r.text(21), IdempotencyKey: r.text(22), CorrelationID: r.text(23), Priority: int32(r.num(24)),
		MaxAttempts: int32(r.num(25)), Table: r.text(1)}
	p := checkpoint.Parked{Sink: r.text(0), Message: m, State: checkpoint.State(r.text(5)), Blocks: r.bool(6), Attempts: int(r.num(7)),
		Tries: int(r.num(31)), Failed: checkpoint.Failure{Epoch: r.num(32), Call: r.num(33)},
		LastError: r.text(9), ErrorClass: r.text(10), Replays: int(r.num(11)), InTable: r.bool(13)}
	if !r.null(8) {
		p.Due, p.NextAttempt = true, time.Duration(r.num(8))*time.Microsecond
	}
	if !r.null(12) {
		m.ID, p.Original = r.text(12), m.ID
	}
	if !r.null(29) {
		m.Fault = &outbox.Fault{Class: r.text(29), Reason: r.text(30)}
	}
	var err error
	if m.Position, err = outbox.ParsePosition(r.text(3)); err == nil {
		m.Headers, err = store.ParseHeaders(textOrNil(r, 18))
	}
	if err == nil {
		err = store.ReadFields(m, textOrNil(r, 19))
	}
	for i, to := range []*time.Time{&m.AvailableAt, &m.CreatedAt, &m.CommitTime} {
		if err == nil {
			*to, err = r.time(26 + i)
		}
	}
	if err != nil {
		return p, fmt.Errorf("%w: read parked message %s at sink %s: %w", source.ErrStop, p.RowID(), p.Sink, err)
	}
	return p, nil
}

func textOrNil(r row, i int) *string {
	if r.null(i) {
		return nil
	}
	text := r.text(i)
	return &text
}

// whereKeys is the condition, of alias p, for deliveries of one table and sink by the ids of their rows.
const whereKeys = `p.pipeline = ? AND p.message_id IN (?) AND p.source_table = ? AND p.sink = ?`

// keyChunk is the most deliveries, or messages, that one statement looks up.
const keyChunk = 500

// A lookup is the ids of deliveries of one table and sink.
type lookup struct {
	table, sink string
	ids         list
}

// lookups brings keys together by table and sink, in chunks, in the order in which they come up.
func lookups(n int, key func(int) checkpoint.Key) []lookup {
	var out []lookup
	open := make(map[[2]string]int)
	for i := range n {
		k := key(i)
		at, ok := open[[2]string{k.Table, k.Sink}]
		if !ok || len(out[at].ids) == keyChunk {
			at = len(out)
			open[[2]string{k.Table, k.Sink}] = at
			out = append(out, lookup{table: k.Table, sink: k.Sink})
		}
		out[at].ids = append(out[at].ids, k.ID)
	}
	return out
}

// readKeys reads whole deliveries, in no order.
func (s *stateStore) readKeys(ctx context.Context, keys []checkpoint.Key, on func(checkpoint.Parked, row) error) error {
	return s.readColumns(ctx, keys, parkedColumns, on)
}

// readColumns reads deliveries, in no order, by a list that begins like parkedColumns.
func (s *stateStore) readColumns(ctx context.Context, keys []checkpoint.Key, columns string, on func(checkpoint.Parked, row) error) error {
	b := s.batch()
	for _, l := range lookups(len(keys), func(i int) checkpoint.Key { return keys[i] }) {
		b.each(func(r row) error {
			p, err := readParked(r)
			if err != nil {
				return err
			}
			return on(p, r)
		}, "SELECT "+columns+" FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereKeys, s.cfg.Pipeline, l.ids, bin(l.table), l.sink)
	}
	return s.send(ctx, b)
}

// complete is store.Complete.
func (s *stateStore) complete(ctx context.Context, ps []checkpoint.Parked, lane bool) (out []checkpoint.Parked, again time.Duration, err error) {
	return store.Complete(ctx, ps, lane, func(ctx context.Context, table, id string) ([]*outbox.Message, error) {
		t := s.tables.byName[table]
		if t == nil {
			return nil, nil
		}
		ms, err := s.readRows(ctx, t, []string{id}, "")
		if passingTrouble(err) {
			return nil, store.ErrTableLocked
		}
		return ms, err
	})
}
