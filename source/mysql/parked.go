package mysql

import (
	"context"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// parkChunk and parkChunkBytes bound one insert into tailbox_parked.
	parkChunk      = 500
	parkChunkBytes = 1 << 20
	// queuedBytes is how much of a batch waits in memory to be sent.
	queuedBytes = 8 << 20
	// statementBytes is room for what a statement holds beside a payload.
	statementBytes = 64 << 10
)

// parkedInsert are the columns of an insert, in the order of parkArgs.
const parkedInsert = `pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, attempts, next_attempt_at,
	last_error, error_class, replays, sent_id, in_table, row_settled, parked_at, changed_at, type, topic, ` + "`key`" + `, payload, payload_bytes,
	headers, fields, tenant, content_type, idempotency_key, correlation_id, priority, max_attempts, available_at, created_at, commit_time,
	fault_class, fault_reason, tries, failed_epoch, failed_call, tried_at`

// insertParked parks deliveries. One that is parked already (the log is read again after a crash) stays as it is: its
// attempts, and that it is dead, must not be forgotten.
const insertParked = `INSERT INTO {parked} (` + parkedInsert + `) VALUES `

const insertParkedEnd = ` ON DUPLICATE KEY UPDATE pipeline = {parked}.pipeline`

// A parkedBefore is what was parked before the settlement.
type parkedBefore struct {
	alone, rowSettled bool
	attempts          int
	position          string
}

// queueKnown asks for what is parked already of the deliveries that are parked or changed, and for the first deliveries of
// the lanes that some are parked in.
func (a *attempt) queueKnown(b *batch) {
	parks, changes := a.in.Park, a.in.Changes
	for _, l := range lookups(len(parks)+len(changes), func(i int) checkpoint.Key {
		if i < len(parks) {
			return parks[i].Key()
		}
		return changes[i-len(parks)].Key
	}) {
		b.each(func(r row) error {
			a.known[checkpoint.Key{Sink: l.sink, Table: l.table, ID: r.text(0)}] = &parkedBefore{r.bool(1), r.bool(2), int(r.num(3)), r.text(4)}
			return nil
		}, "SELECT p.message_id, p.alone, p.row_settled, p.attempts, p.position FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereKeys,
			a.s.cfg.Pipeline, l.ids, bin(l.table), l.sink)
	}
	var lanes store.LaneSet
	for i := range parks {
		if p := &parks[i]; !store.Alone(p) {
			lanes.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
	}
	a.s.queueHeadsOf(b, lanes.Order, a.was)
}

// queueParks adds the inserts to a batch, and the lanes that they touch to those of the attempt. Large ones are sent on the
// way: what they hold is in memory twice until then.
func (a *attempt) queueParks(ctx context.Context, b *batch) error {
	s, parks := a.s, store.OwnIDs(a.in.Park, false, func(k checkpoint.Key) string {
		if known := a.known[k]; known != nil {
			return known.position
		}
		return ""
	})
	settling := make(map[store.MessageKey]bool)
	for i := range a.in.Rows {
		if r := &a.in.Rows[i]; r.Parked {
			settling[store.MessageKey{Table: r.Table, ID: r.ID}] = true
		}
	}
	first := store.FirstOfLanes(parks)
	var args []any
	n, bytes := 0, 0
	flush := func() error {
		if n > 0 {
			const places = 41
			one := "(?" + strings.Repeat(",?", places-1) + ")"
			b.exec(insertParked+strings.Repeat(one+",", n-1)+one+insertParkedEnd, args...)
		}
		args, n, bytes = nil, 0, 0
		if len(b.buf) < queuedBytes {
			return nil
		}
		return s.send(ctx, b)
	}
	for i := range parks {
		p := &parks[i]
		s.sinks[p.Sink] = true
		if !store.Alone(p) {
			a.lanes.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
		if a.known[p.Key()] != nil {
			continue
		}
		size := p.Message.Size()
		if n == parkChunk || bytes+size > min(parkChunkBytes, a.s.maxPacket/4) {
			if err := flush(); err != nil {
				return err
			}
		}
		rest := a.parkArgs(&args, p, settling[store.MessageKey{Table: p.Message.Table, ID: store.TableID(p)}], first[i])
		n, bytes = n+1, bytes+size
		if len(rest) > 0 {
			if err := flush(); err != nil {
				return err
			}
			a.queueRest(b, p.Key(), rest)
		}
	}
	return flush()
}

// parkArgs appends the values of a delivery. RowSettled: its message's row is dealt with in the same settlement. First: no
// delivery before it in the same settlement blocks its lane. It returns what is left of a payload that is too large for one
// statement.
func (a *attempt) parkArgs(args *[]any, p *checkpoint.Parked, rowSettled, first bool) (rest []byte) {
	m := p.Message
	alone := store.Alone(p)
	blocks := p.Blocks && !alone
	var next time.Time
	if store.Timed(p.Due, p.State) {
		switch {
		case !blocks:
			next = a.now.Add(p.NextAttempt)
		case first:
			a.wanted[p.Key()] = p.NextAttempt
		}
	}
	sent := ""
	if p.Original != "" {
		sent = m.ID
	}
	// A message with a fault is not all here: its row stays, and a replay reads it again, if the row can be found. So does one
	// that no statement can hold.
	c := a.s.portion(m, !p.InTable, p.InTable || m.Fault != nil && !outbox.IsStandInID(store.TableID(p)))
	var tried time.Time
	if p.Tries > 0 {
		tried = *a.now
	}
	class, reason := "", ""
	if m.Fault != nil {
		class, reason = m.Fault.Class, store.ErrorText(m.Fault.Reason)
	}
	*args = append(*args, a.s.cfg.Pipeline, p.Sink, bin(m.Table), bin(m.Group), m.Position.String(), bin(p.RowID()), string(p.State), blocks,
		alone, p.Attempts, next, orNull(store.ErrorText(p.LastError)), orNull(p.ErrorClass), p.Replays, binOrNull(sent), c.inTable, rowSettled,
		*a.now, *a.now, bin(m.Type), bin(m.Topic), m.Key, c.first, len(c.first)+len(c.rest), c.headers, c.fields, binOrNull(m.Tenant),
		binOrNull(c.contentType), binOrNull(c.idempotencyKey), binOrNull(c.correlationID), m.Priority, m.MaxAttempts, m.AvailableAt, m.CreatedAt, m.CommitTime, orNull(class), orNull(reason),
		p.Tries, p.Failed.Epoch, p.Failed.Call, tried)
	return c.rest
}

// A portion is what one statement holds of a message whose parts may be of any size, and the rest of the payload.
type portion struct {
	headers, fields                            *string
	contentType, idempotencyKey, correlationID string
	first, rest                                []byte
	inTable                                    bool
}

// portion divides a message, with its payload or without. What the server takes from nobody in one packet is not copied: it is in the user's table.
func (s *stateStore) portion(m *outbox.Message, withPayload, inTable bool) portion {
	most := s.maxPacket - statementBytes
	p := portion{headers: store.HeadersJSON(m.Headers), fields: store.FieldsJSON(m), contentType: m.ContentType, idempotencyKey: m.IdempotencyKey,
		correlationID: m.CorrelationID, inTable: inTable}
	beside := len(m.Type) + len(m.Topic) + len(m.Key) + len(m.Tenant)
	for _, text := range []*string{p.headers, p.fields, &p.contentType, &p.idempotencyKey, &p.correlationID} {
		if text != nil {
			beside += len(*text)
		}
	}
	switch {
	case 2*beside > most: // quotes are doubled
		bare := outbox.Message{Binary: m.Binary, LongGroup: m.LongGroup}
		return portion{fields: store.FieldsJSON(&bare), inTable: true}
	case !withPayload:
	case len(m.Payload) > most:
		p.inTable = true
	default:
		n := min(len(m.Payload), most/2-beside)
		p.first, p.rest = m.Payload[:n:n], m.Payload[n:]
	}
	return p
}

// queueRest appends to a payload what its insert could not hold.
func (a *attempt) queueRest(b *batch, k checkpoint.Key, rest []byte) {
	for most := a.s.maxPacket/2 - statementBytes; len(rest) > 0; {
		n := min(len(rest), most)
		b.exec("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.payload = CONCAT(p.payload, ?) WHERE "+whereKeys, rest[:n], a.s.cfg.Pipeline,
			list{k.ID}, bin(k.Table), k.Sink)
		rest = rest[n:]
	}
}
