package postgres

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/store"
)

// A decoder turns the values of rows into messages. It is pure but for its arena, and not safe for concurrent use.
type decoder struct {
	arena.Arena
	maxMessage int
	scratch    []byte
	headerBuf  []outbox.Header
}

// decode fills m from a row. What cannot be understood, or is beyond its bound, becomes m.Fault, with the rest filled in: no row stops
// tailbox by what it contains. An error is for what the server cannot have sent. Bounds are checked here because every road from the table to a
// sink passes here: the log, a sweep, a reconciliation, and the row of a parked delivery that is read again.
//
// A row whose id cannot be read has a fault and no ID: the caller makes a stand-in of the row's place. Large says that the row is known to be
// larger than max_message. Nothing of vals is kept, but for data that is owned.
func (d *decoder) decode(p *plan, vals []value, large bool, m *outbox.Message) error {
	if len(vals) != len(p.cols) {
		return fmt.Errorf("decode row of %s: %d columns, want %d: %w", p.Table, len(vals), len(p.cols), pgrepl.ErrProtocol)
	}
	m.Table = p.Table
	if large || d.size(p, vals) > d.maxMessage {
		dropLarge(p, vals)
		m.Fault = p.TooLarge(d.maxMessage)
	}
	id, null, err := d.column(p, p.ID, vals)
	switch {
	case err != nil:
		p.Nameless(m, d.maxMessage, err.Error())
	case null || len(id) == 0:
		p.Nameless(m, d.maxMessage, "it is NULL or empty")
	case len(id) > outbox.MaxIndexed:
		p.Nameless(m, d.maxMessage, fmt.Sprintf("it has %d bytes, and at most %d can be indexed", len(id), outbox.MaxIndexed))
	default:
		m.ID = arena.StringOf(id)
	}
	d.group(p, vals, m)
	d.small(p, vals, m)
	d.body(p, vals, m)
	p.Bound(m)
	return nil
}

// size is what max_message bounds: the bytes of all values that are part of the message and can be large.
func (d *decoder) size(p *plan, vals []value) int {
	total := 0
	for i := range vals {
		if p.Wanted[i] {
			total += vals[i].size(p.cols[i].kind)
		}
	}
	return total
}

// dropLarge drops the payload of a row that is too large, and whatever else is not small. Of the group so much stays as tells it from others.
func dropLarge(p *plan, vals []value) {
	for i := range vals {
		switch v := &vals[i]; {
		case p.Grouped(i) && v.tag != tagDropped:
			v.data = v.data[:min(len(v.data), columns.MaxSmall+1)]
		case i == p.Payload || len(v.data) > columns.MaxSmall:
			vals[i] = value{tag: tagDropped}
		}
	}
}

// tagDropped marks a value that was not read because its row is too large.
const tagDropped = 'x'

// column copies a column's text into the arena. A column that does not exist is NULL.
func (d *decoder) column(p *plan, i int, vals []value) (b []byte, null bool, err error) {
	if i < 0 || vals[i].tag == 'n' {
		return nil, true, nil
	}
	v := &vals[i]
	if v.tag == tagDropped {
		return nil, false, columns.ErrDropped()
	}
	b, ok, err := v.raw(p.cols[i].kind)
	switch {
	case err != nil:
		return nil, false, err
	case ok && v.owned && 2*len(b) >= len(v.data): // or the blanks of a char(n) would stay in memory with it
		return b[:len(b):len(b)], false, nil
	case ok:
		return d.CopyOf(b), false, nil
	}
	if d.scratch, err = v.appendText(d.scratch[:0], p.cols[i].kind); err != nil {
		return nil, false, err
	}
	return d.CopyOf(d.scratch), false, nil
}

// word is a column's text, interned. NULL is "".
func (d *decoder) word(p *plan, i int, vals []value, m *outbox.Message) string {
	if i < 0 || vals[i].tag == 'n' {
		return ""
	}
	b, err := d.peek(p, i, vals)
	if err != nil {
		p.Fault(m, i, err)
		return ""
	}
	return d.Intern(b)
}

// peek is a column's text, valid until the next call.
func (d *decoder) peek(p *plan, i int, vals []value) ([]byte, error) {
	v := &vals[i]
	if v.tag == tagDropped {
		return nil, columns.ErrDropped()
	}
	b, ok, err := v.raw(p.cols[i].kind)
	if ok || err != nil {
		return b, err
	}
	d.scratch, err = v.appendText(d.scratch[:0], p.cols[i].kind)
	return d.scratch, err
}

// textColumn is a column's text. NULL is "".
func (d *decoder) textColumn(p *plan, i int, vals []value, m *outbox.Message) string {
	b, null, err := d.column(p, i, vals)
	if err != nil {
		p.Fault(m, i, err)
	}
	if null || err != nil {
		return ""
	}
	return arena.StringOf(b)
}

// group joins the group's columns with ":".
func (d *decoder) group(p *plan, vals []value, m *outbox.Message) {
	if len(p.Group) == 0 {
		return
	}
	joined := d.scratch[:0]
	for n, i := range p.Group {
		v := &vals[i]
		if v.tag == 'n' {
			return
		}
		if n > 0 {
			joined = append(joined, ':')
		}
		var err error
		if joined, err = v.appendText(joined, p.cols[i].kind); err != nil {
			p.NoGroup(m, i, err)
			return
		}
	}
	if cap(joined) <= 2*outbox.MaxGroup { // or a rare long group would keep its memory
		d.scratch = joined
	}
	// Where the row is too large, no more than this was read of it: its group has to be the same.
	if m.SetGroup(d.Text(joined[:min(len(joined), outbox.MaxGroup+1)])) {
		p.LongGroup(m)
	}
}

// small fills what is neither id, group nor body.
func (d *decoder) small(p *plan, vals []value, m *outbox.Message) {
	if p.Type >= 0 && vals[p.Type].tag == 'n' && !p.Untyped {
		p.Fault(m, p.Type, errors.New("it is NULL"))
	}
	m.Type, m.Topic = d.word(p, p.Type, vals, m), d.word(p, p.Topic, vals, m)
	m.Tenant, m.ContentType = d.word(p, p.Tenant, vals, m), d.word(p, p.ContentType, vals, m)
	m.IdempotencyKey = d.textColumn(p, p.IdempotencyKey, vals, m)
	m.CorrelationID = d.textColumn(p, p.CorrelationID, vals, m)
	m.Priority, m.MaxAttempts = d.number(p, p.Priority, vals, m), d.number(p, p.MaxAttempts, vals, m)
	m.AvailableAt, m.CreatedAt = d.time(p, p.AvailableAt, vals, m), d.time(p, p.CreatedAt, vals, m)
}

// time is a column's time. NULL is the zero time.
func (d *decoder) time(p *plan, i int, vals []value, m *outbox.Message) time.Time {
	if i < 0 || vals[i].tag == 'n' {
		return time.Time{}
	}
	t, err := vals[i].time(p.cols[i].kind)
	if err != nil {
		p.Fault(m, i, err)
	}
	return t
}

// number is a column's whole number. NULL is 0.
func (d *decoder) number(p *plan, i int, vals []value, m *outbox.Message) int32 {
	if i < 0 || vals[i].tag == 'n' {
		return 0
	}
	n, err := vals[i].integer(p.cols[i].kind)
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = errors.New("it does not fit into 32 bits")
	}
	if err != nil {
		p.Fault(m, i, err)
		return 0
	}
	return int32(n)
}

// body fills key, payload, headers and fields.
func (d *decoder) body(p *plan, vals []value, m *outbox.Message) {
	var err error
	if m.Key, err = d.keyOf(p, vals); err != nil {
		p.Fault(m, p.Key, err)
	}
	if m.Payload, err = d.payloadOf(p, vals); err != nil {
		p.Fault(m, p.Payload, err)
	}
	m.Binary = p.Payload >= 0 && p.cols[p.Payload].kind == kindBytea
	if text, null, err := d.column(p, p.Headers, vals); err != nil {
		p.Fault(m, p.Headers, err)
	} else if !null {
		if d.headerBuf, err = store.BoundedHeaders(d.headerBuf[:0], text); err != nil {
			p.Fault(m, p.Headers, err)
		}
		m.Headers = d.HeaderList(d.headerBuf)
	}
	if len(p.Fields) == 0 {
		return
	}
	m.Fields = d.FieldList(len(p.Fields))
	for n, i := range p.Fields {
		f := &m.Fields[n]
		f.Name, f.Type = p.Names[i], p.cols[i].typ
		if f.Value, f.Null, err = d.column(p, i, vals); err != nil {
			p.Fault(m, i, err)
		}
	}
}

// keyOf is the key: of a bytea its bytes, of all else its text.
func (d *decoder) keyOf(p *plan, vals []value) ([]byte, error) {
	if p.Key >= 0 && p.cols[p.Key].kind == kindBytea && !p.TextKey {
		return d.bytes(p, p.Key, vals)
	}
	b, _, err := d.column(p, p.Key, vals)
	return b, err
}

// bytes are those of a bytea; nil for NULL.
func (d *decoder) bytes(p *plan, i int, vals []value) ([]byte, error) {
	v, k := &vals[i], p.cols[i].kind
	switch {
	case v.tag == 'n':
		return nil, nil
	case v.tag == tagDropped:
		return nil, columns.ErrDropped()
	case v.tag == 'b' && v.owned:
		return v.data, nil
	}
	return byteaBytes(d.Alloc(v.size(k))[:0], v)
}

// payloadOf is the payload byte for byte as the application wrote it: bytea decoded, all else as its text.
func (d *decoder) payloadOf(p *plan, vals []value) ([]byte, error) {
	if p.Payload < 0 || vals[p.Payload].tag == 'n' || vals[p.Payload].tag == tagDropped {
		return nil, nil
	}
	v, k := &vals[p.Payload], p.cols[p.Payload].kind
	switch {
	case k == kindBytea && (v.tag == 'b' || v.tag == 't'):
		return d.bytes(p, p.Payload, vals)
	case k == kindBpchar && (v.tag == 'b' || v.tag == 't'):
		return d.CopyOf(v.data), nil // with its trailing spaces
	}
	b, _, err := d.column(p, p.Payload, vals)
	return b, err
}
