package store

import (
	"context"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
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

// insertParked parks deliveries. One that is parked already (the log is read again after a crash) stays as it is: its
// attempts, and that it is dead, must not be forgotten.
func insertParked(columns []store.Column) string {
	return "INSERT INTO {parked} (pipeline, payload_bytes, " + columnNames(columns, "") + ") VALUES "
}

const insertParkedEnd = ` ON DUPLICATE KEY UPDATE pipeline = {parked}.pipeline`

// A parkedBefore is what was parked before the settlement.
type parkedBefore struct {
	alone, rowSettled bool
	attempts          int
	place             store.Place
	head              bool // it is the first blocking delivery of its lane, and not an operator's
}

// queueKnown asks for what is parked already of the deliveries that are parked or changed, and for the first deliveries of
// the lanes that some are parked in.
func (a *attempt) queueKnown(b *session.Batch) {
	parks, changes := a.In.Park, a.In.Changes
	for _, l := range lookups(len(parks)+len(changes), func(i int) checkpoint.Key {
		if i < len(parks) {
			return parks[i].Key()
		}
		return changes[i-len(parks)].Key
	}) {
		b.Each(func(r session.Row) error {
			a.known[checkpoint.Key{Sink: l.sink, Table: l.table, ID: r.Text(0)}] = &parkedBefore{r.Bool(1), r.Bool(2), int(r.Num(3)),
				store.Place{Position: r.Text(4), Detached: r.Bool(6)}, r.Bool(5)}
			return nil
		}, "SELECT p.message_id, p.alone, p.row_settled, p.attempts, p.position, p.blocks AND p.next_attempt_at IS NOT NULL, "+store.DetachedSQL+
			" FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereKeys,
			a.s.Config.Pipeline, l.ids, quote.Bin(l.table), l.sink)
	}
	a.s.QueueHeadsOf(b, a.ParkedLanes(), a.Lanes.Before)
}

// queueParks adds the inserts to a batch, and the lanes that they touch to those of the attempt. Large ones are sent on the
// way: what they hold is in memory twice until then.
func (a *attempt) queueParks(ctx context.Context, b *session.Batch) error {
	s, parks := a.s, store.OwnIDs(a.In.Park, a.s.Config.Poll, func(k checkpoint.Key) store.Place {
		if known := a.known[k]; known != nil {
			return known.place
		}
		return store.Place{}
	})
	settling := a.Settling()
	first := store.FirstOfLanes(parks)
	var row store.ParkedRow
	columns := row.Columns()
	one := "(?,?" + strings.Repeat(",?", len(columns)) + ")"
	var args []any
	n, bytes := 0, 0
	flush := func() error {
		if n > 0 {
			b.Exec(insertParked(columns)+strings.Repeat(one+",", n-1)+one+insertParkedEnd, args...)
		}
		args, n, bytes = nil, 0, 0
		if b.Size() < queuedBytes {
			return nil
		}
		return s.Send(ctx, b)
	}
	for i := range parks {
		p := &parks[i]
		s.Sinks[p.Sink] = true
		lane := checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}
		if !store.Alone(p) {
			a.Lanes.Touched.Add(lane)
		}
		if a.known[p.Key()] != nil {
			continue
		}
		size := p.Message.Size()
		if n == parkChunk || bytes+size > min(parkChunkBytes, a.s.MaxPacket/4) {
			if err := flush(); err != nil {
				return err
			}
		}
		row.Park(p, *a.now, settling[store.MessageKey{Table: p.Message.Table, ID: store.TableID(p)}])
		if store.Timed(p.Due, p.State) {
			switch {
			case !row.Blocks:
				row.Next = a.now.Add(p.NextAttempt)
			case first[i]:
				a.Lanes.Want(p.Key(), p.NextAttempt)
			}
		}
		if first[i] && a.Lanes.Before[lane] == nil && a.changes[lane] == 0 && a.Request == nil {
			row.Next = a.foundHead(lane, p.Key(), row.Position, p.State, p.Due, p.NextAttempt)
		}
		rest := s.fit(&row)
		args = appendValues(append(args, s.Config.Pipeline, len(row.Content.Payload)+len(rest)), columns)
		n, bytes = n+1, bytes+size
		if len(rest) > 0 {
			if err := flush(); err != nil {
				return err
			}
			s.queueRest(b, p.Key(), len(row.Content.Payload), rest)
		}
	}
	return flush()
}

// fit cuts a row to what one statement holds, and returns the rest of its payload. What the server takes from nobody in one packet is
// not copied: it is in the user's table.
func (s *Store) fit(r *store.ParkedRow) (rest []byte) {
	most, m := s.MaxPacket-statementBytes, &r.Content
	beside := len(m.Type) + len(m.Topic) + len(m.Key) + len(m.Tenant) + len(m.ContentType) + len(m.IdempotencyKey) + len(m.CorrelationID)
	for _, text := range []*string{store.HeadersJSON(m.Headers), store.FieldsJSON(m)} {
		if text != nil {
			beside += len(*text)
		}
	}
	switch {
	case 2*beside > most: // quotes are doubled
		m.Headers, m.Fields, m.Payload = nil, nil, nil
		m.ContentType, m.IdempotencyKey, m.CorrelationID = "", "", ""
		r.InTable = true
	case len(m.Payload) > most:
		m.Payload, r.InTable = nil, true
	default:
		n := min(len(m.Payload), most/2-beside)
		m.Payload, rest = m.Payload[:n:n], m.Payload[n:]
	}
	return rest
}

// queueRest appends to a payload what its insert could not hold, unless the payload of a delivery that was parked before has it.
func (s *Store) queueRest(b *session.Batch, k checkpoint.Key, at int, rest []byte) {
	for most := s.MaxPacket/2 - statementBytes; len(rest) > 0; {
		n := min(len(rest), most)
		b.Exec("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.payload = CONCAT(p.payload, ?) WHERE "+whereKeys+" AND OCTET_LENGTH(p.payload) = ?",
			rest[:n], s.Config.Pipeline, quote.List{k.ID}, quote.Bin(k.Table), k.Sink, at)
		at, rest = at+n, rest[n:]
	}
}
