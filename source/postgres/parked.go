package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// parkChunk and parkChunkBytes bound one insert into tailbox_parked.
	parkChunk      = 1000
	parkChunkBytes = 16 << 20
)

// insertParked parks deliveries. One that is parked already (the log is read again after a crash) stays as it is: its
// attempts, and that it is dead, must not be forgotten.
//
// A delivery that is due gets its time only if none blocks before it, be it of its own lane or of its group at the sink ”;
// the deliveries of this statement itself are not seen here, their order is the caller's.
//
// One whose id another message has that is parked gets an identity of its own, as store.OwnIDs would give it.
const insertParked = `
INSERT INTO {parked} (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, attempts,
	next_attempt_at, last_error, error_class, replays, sent_id, in_table, row_settled, type, topic, key, payload, headers, fields,
	tenant, content_type, idempotency_key, correlation_id, priority, max_attempts, available_at, created_at, commit_time,
	fault_class, fault_reason, tries, failed_epoch, failed_call, tried_at)
SELECT $1, v.sink, v.source_table, v.message_group, v.position, CASE WHEN taken THEN $36 || substr(v.position, 10) ELSE v.message_id END, v.state, v.blocks, v.alone, v.attempts,
	CASE WHEN v.due AND (NOT v.blocks OR NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.sink = v.sink
			AND p.message_group = v.message_group AND p.blocks AND p.position < v.position)
		AND NOT EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.sink = ''
			AND p.message_group = v.message_group AND p.blocks AND p.position < v.position))
		THEN now() + v.delay * interval '1 microsecond' END,
	nullif(v.last_error, ''), nullif(v.error_class, ''), v.replays, nullif(CASE WHEN taken AND v.sent_id = '' THEN v.message_id ELSE v.sent_id END, ''), v.in_table, v.row_settled,
	v.type, v.topic, v.key, v.payload, v.headers::json, v.fields::json, nullif(v.tenant, ''), nullif(v.content_type, ''),
	nullif(v.idempotency_key, ''), nullif(v.correlation_id, ''), v.priority, v.max_attempts, v.available_at, v.created_at,
	v.commit_time, nullif(v.fault_class, ''), nullif(v.fault_reason, ''), v.tries, v.failed_epoch, v.failed_call,
	CASE WHEN v.tries > 0 THEN now() END
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bool[], $9::bool[], $10::int[],
	$11::bool[], $12::bigint[], $13::text[], $14::text[], $15::int[], $16::text[], $17::bool[], $18::bool[], $19::text[],
	$20::text[], $21::bytea[], $22::bytea[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::text[],
	$29::int[], $30::int[], $31::timestamptz[], $32::timestamptz[], $33::timestamptz[], $34::text[], $35::text[],
	$37::int[], $38::bigint[], $39::bigint[])
AS v (sink, source_table, message_group, position, message_id, state, blocks, alone, attempts, due, delay, last_error,
	error_class, replays, sent_id, in_table, row_settled, type, topic, key, payload, headers, fields, tenant, content_type,
	idempotency_key, correlation_id, priority, max_attempts, available_at, created_at, commit_time, fault_class, fault_reason,
	tries, failed_epoch, failed_call),
LATERAL (SELECT EXISTS (SELECT FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = v.message_id AND p.source_table = v.source_table
	AND p.sink = v.sink AND substr(p.position, 10, 16) <> substr(v.position, 10, 16)) AS taken) AS already
ON CONFLICT (pipeline, message_id, source_table, sink) DO NOTHING`

// parkColumns are the arrays of one insert.
type parkColumns struct {
	sink, table, group, position, id, state                                         []string
	lastError, errorClass, sentID, typ, topic, tenant, contentType, idemKey, corrID []string
	faultClass, faultReason                                                         []string
	headers, fields                                                                 []*string
	blocks, alone, due, inTable, rowSettled                                         []bool
	attempts, tries, replays, priority, maxAttempts                                 []int32
	delay, failedEpoch, failedCall                                                  []int64
	key, payload                                                                    [][]byte
	available, created, committed                                                   []pgtype.Timestamptz
	bytes                                                                           int
	encoding                                                                        encoding
}

// add appends a delivery. rowSettled: its message's row is dealt with in the same settlement. first: no delivery before
// it in the same settlement blocks its lane.
func (c *parkColumns) add(p *checkpoint.Parked, rowSettled, first bool) {
	m := p.Message
	isAlone := store.Alone(p)
	blocks := p.Blocks && !isAlone
	c.sink = append(c.sink, p.Sink)
	c.table = append(c.table, m.Table)
	c.group = append(c.group, m.Group)
	c.position = append(c.position, m.Position.String())
	c.id = append(c.id, p.RowID())
	c.state = append(c.state, string(p.State))
	c.blocks = append(c.blocks, blocks)
	c.alone = append(c.alone, isAlone)
	c.attempts = append(c.attempts, int32(p.Attempts))
	c.tries = append(c.tries, int32(p.Tries))
	c.failedEpoch = append(c.failedEpoch, p.Failed.Epoch)
	c.failedCall = append(c.failedCall, p.Failed.Call)
	c.due = append(c.due, store.Timed(p.Due, p.State) && (!blocks || first))
	c.delay = append(c.delay, p.NextAttempt.Microseconds())
	c.lastError = append(c.lastError, store.ErrorText(p.LastError))
	c.errorClass = append(c.errorClass, p.ErrorClass)
	c.replays = append(c.replays, int32(p.Replays))
	sent := ""
	if p.Original != "" {
		sent = m.ID
	}
	c.sentID = append(c.sentID, sent)
	// A message with a fault is not all here: its row stays, and a replay reads it again, if it can be found.
	c.inTable = append(c.inTable, p.InTable || m.Fault != nil && !outbox.IsStandInID(store.TableID(p)))
	c.rowSettled = append(c.rowSettled, rowSettled)
	c.addMessage(p)
}

func (c *parkColumns) addMessage(p *checkpoint.Parked) {
	m := p.Message
	payload := m.Payload
	if p.InTable {
		payload = nil
	}
	c.typ = append(c.typ, m.Type)
	c.topic = append(c.topic, m.Topic)
	c.key = append(c.key, m.Key)
	c.payload = append(c.payload, payload)
	c.headers = append(c.headers, c.encoding.fitJSON(store.HeadersJSON(m.Headers)))
	c.fields = append(c.fields, c.encoding.fitJSON(store.FieldsJSON(m)))
	c.tenant = append(c.tenant, m.Tenant)
	c.contentType = append(c.contentType, m.ContentType)
	c.idemKey = append(c.idemKey, m.IdempotencyKey)
	c.corrID = append(c.corrID, m.CorrelationID)
	c.priority = append(c.priority, m.Priority)
	c.maxAttempts = append(c.maxAttempts, m.MaxAttempts)
	c.available = append(c.available, timestamp(m.AvailableAt))
	c.created = append(c.created, timestamp(m.CreatedAt))
	c.committed = append(c.committed, timestamp(m.CommitTime))
	class, reason := "", ""
	if m.Fault != nil {
		class, reason = m.Fault.Class, store.ErrorText(m.Fault.Reason)
	}
	c.faultClass = append(c.faultClass, class)
	c.faultReason = append(c.faultReason, reason)
	c.bytes += m.Size()
}

func (c *parkColumns) args(pipeline string) []any {
	return []any{pipeline, c.sink, c.table, c.group, c.position, c.id, c.state, c.blocks, c.alone, c.attempts, c.due, c.delay,
		c.lastError, c.errorClass, c.replays, c.sentID, c.inTable, c.rowSettled, c.typ, c.topic, c.key, c.payload, c.headers,
		c.fields, c.tenant, c.contentType, c.idemKey, c.corrID, c.priority, c.maxAttempts, c.available, c.created, c.committed,
		c.faultClass, c.faultReason, outbox.StandInID(""), c.tries, c.failedEpoch, c.failedCall}
}

// queueParks adds the inserts to a batch, and the lanes that they touch to those of the attempt. Large ones are sent on the
// way: what they hold is in memory twice until then. It returns the batch to go on with.
func (a *attempt) queueParks(ctx context.Context, b *pgx.Batch) (*pgx.Batch, error) {
	s, parks, rows := a.s, store.OwnIDs(a.in.Park, true, nil), a.in.Rows
	if len(parks) == 0 {
		return b, nil
	}
	settling := make(map[store.MessageKey]bool)
	for i := range rows {
		if rows[i].Parked {
			settling[store.MessageKey{Table: rows[i].Table, ID: rows[i].ID}] = true
		}
	}
	first := store.FirstOfLanes(parks)
	cols, queued := &parkColumns{encoding: s.encoding}, 0
	for i := range parks {
		p := &parks[i]
		s.sinks[p.Sink] = true
		key := store.MessageKey{Table: p.Message.Table, ID: store.TableID(p)}
		cols.add(p, settling[key], first[i])
		if !store.Alone(p) {
			a.lanes.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
		if len(cols.sink) == parkChunk || cols.bytes > parkChunkBytes || i == len(parks)-1 {
			b.Queue(s.q(insertParked), cols.args(s.cfg.Pipeline)...)
			queued += cols.bytes
			cols = &parkColumns{encoding: s.encoding}
		}
		if queued > parkChunkBytes {
			if err := s.send(ctx, b); err != nil {
				return nil, err
			}
			b, queued = &pgx.Batch{}, 0
		}
	}
	return b, nil
}

// timestamp is a time for a column that may be NULL; the zero time is NULL.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
