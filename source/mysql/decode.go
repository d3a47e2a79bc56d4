package mysql

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// A decoder turns the values of rows into messages. It is pure but for its arena, and not safe for concurrent use.
type decoder struct {
	arena.Arena
	maxMessage int
	scratch    []byte
	headerBuf  []outbox.Header
}

// decode fills m from a row. What cannot be understood becomes m.Fault, with the rest filled in; an error, which
// matches source.ErrStop, is for rows whose group cannot be read, so that they could not even be parked in order. A row
// whose id cannot be read has a fault and no ID: the caller makes a stand-in of the row's place. Large says that the row
// is known to be larger than max_message. Nothing of vals is kept, but for data that is owned.
func (d *decoder) decode(p *plan, vals []value, large bool, m *outbox.Message) error {
	if len(vals) != len(p.cols) {
		return fmt.Errorf("decode row of %s: %d columns, want %d: %w", p.table, len(vals), len(p.cols), errProtocol)
	}
	m.Table = p.table
	if large || d.size(p, vals) > d.maxMessage {
		dropLarge(p, vals)
		m.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: fmt.Sprintf(
			"row of %s is larger than max_message (%d bytes): raise max_message and replay it, or drop it", p.table, d.maxMessage)}
	}
	id, null, err := d.column(p, p.id, vals)
	switch {
	case err != nil:
		d.nameless(p, m, err.Error())
	case null || len(id) == 0:
		d.nameless(p, m, "it is NULL or empty")
	case len(id) > outbox.MaxIndexed:
		d.nameless(p, m, fmt.Sprintf("it has %d bytes, and at most %d can be indexed", len(id), outbox.MaxIndexed))
	default:
		m.ID = arena.StringOf(id)
	}
	if err := d.group(p, vals, m); err != nil {
		return err
	}
	d.small(p, vals, m)
	d.body(p, vals, m)
	return nil
}

// nameless notes that the row's id cannot be read. The relay cannot find such a row in its table again.
func (d *decoder) nameless(p *plan, m *outbox.Message, why string) {
	const cure = "give the message an id (tailbox dead edit --new-id) or drop it; its row stays in the table until you give it an id or delete it"
	if m.Fault != nil { // too large
		m.Fault.Reason = fmt.Sprintf("row of %s is larger than max_message (%d bytes), so its payload is not here, and its id (column %s) cannot be "+
			"read: %s: %s", p.table, d.maxMessage, p.cols[p.id].name, why, cure)
		return
	}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the id (column %s) of a row of %s cannot be read: %s: %s",
		p.cols[p.id].name, p.table, why, cure)}
}

func stopGroup(p *plan, i int, err error) error {
	return fmt.Errorf("read the group (column %s) of a row of %s: %w: raise max_message, or leave the column out of columns.group: %w",
		p.cols[i].name, p.table, err, source.ErrStop)
}

// size is what max_message bounds: the bytes of all values that are part of the message and can be large.
func (d *decoder) size(p *plan, vals []value) int {
	total := 0
	for i := range vals {
		if p.cols[i].want {
			total += vals[i].size(p.cols[i].kind)
		}
	}
	return total
}

// dropLarge drops the payload of a row that is too large, and whatever else is not small.
func dropLarge(p *plan, vals []value) {
	for i := range vals {
		if i == p.payload || len(vals[i].data) > maxSmall {
			vals[i] = value{tag: tagDropped}
		}
	}
}

var errDropped = fmt.Errorf("it is larger than %d bytes in a row larger than max_message", maxSmall)

// fault notes the first thing that could not be understood.
func (d *decoder) fault(p *plan, i int, m *outbox.Message, err error) {
	if m.Fault == nil {
		m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf(
			"column %s of %s cannot be understood: %v: correct the row's writer, then edit or drop the message", p.cols[i].name, p.table, err)}
	}
}

// column copies a column's text into the arena. A column that does not exist is NULL.
func (d *decoder) column(p *plan, i int, vals []value) (b []byte, null bool, err error) {
	if i < 0 || vals[i].tag == tagNull {
		return nil, true, nil
	}
	v := &vals[i]
	if v.tag == tagDropped {
		return nil, false, errDropped
	}
	b, ok, err := v.raw(&p.cols[i].column)
	switch {
	case err != nil:
		return nil, false, err
	case ok && v.owned:
		return b[:len(b):len(b)], false, nil
	case ok:
		return d.CopyOf(b), false, nil
	}
	if d.scratch, err = v.appendText(d.scratch[:0], &p.cols[i].column); err != nil {
		return nil, false, err
	}
	return d.CopyOf(d.scratch), false, nil
}

// word is a column's text, interned. NULL is "".
func (d *decoder) word(p *plan, i int, vals []value, m *outbox.Message) string {
	if i < 0 || vals[i].tag == tagNull {
		return ""
	}
	b, err := d.peek(p, i, vals)
	if err != nil {
		d.fault(p, i, m, err)
		return ""
	}
	return d.Intern(b)
}

// peek is a column's text, valid until the next call.
func (d *decoder) peek(p *plan, i int, vals []value) ([]byte, error) {
	v := &vals[i]
	if v.tag == tagDropped {
		return nil, errDropped
	}
	b, ok, err := v.raw(&p.cols[i].column)
	if ok || err != nil {
		return b, err
	}
	d.scratch, err = v.appendText(d.scratch[:0], &p.cols[i].column)
	return d.scratch, err
}

// textColumn is a column's text. NULL is "".
func (d *decoder) textColumn(p *plan, i int, vals []value, m *outbox.Message) string {
	b, null, err := d.column(p, i, vals)
	if err != nil {
		d.fault(p, i, m, err)
	}
	if null || err != nil {
		return ""
	}
	return arena.StringOf(b)
}

// group joins the group's columns with ":".
func (d *decoder) group(p *plan, vals []value, m *outbox.Message) error {
	if len(p.group) == 0 {
		return nil
	}
	joined := d.scratch[:0]
	for n, i := range p.group {
		v := &vals[i]
		if v.tag == tagNull {
			return nil
		}
		if v.tag == tagDropped {
			return stopGroup(p, i, errDropped)
		}
		if n > 0 {
			joined = append(joined, ':')
		}
		var err error
		if joined, err = v.appendText(joined, &p.cols[i].column); err != nil {
			return stopGroup(p, i, err)
		}
	}
	d.scratch = joined
	if len(joined) <= outbox.MaxIndexed {
		m.Group = d.Text(joined)
		return nil
	}
	m.Group = outbox.StandInGroup(joined)
	if m.Fault == nil {
		m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the group (column %s) of a row of %s has %d bytes, and at most "+
			"%d can be indexed: correct the row's writer, then drop the message and write it anew with a shorter group", p.cols[p.group[0]].name,
			p.table, len(joined), outbox.MaxIndexed)}
	}
	return nil
}

// small fills what is neither id, group nor body.
func (d *decoder) small(p *plan, vals []value, m *outbox.Message) {
	if p.typ >= 0 && vals[p.typ].tag == tagNull {
		d.fault(p, p.typ, m, errors.New("it is NULL"))
	}
	m.Type, m.Topic = d.word(p, p.typ, vals, m), d.word(p, p.topic, vals, m)
	m.Tenant, m.ContentType = d.word(p, p.tenant, vals, m), d.word(p, p.contentType, vals, m)
	m.IdempotencyKey = d.textColumn(p, p.idempotencyKey, vals, m)
	m.CorrelationID = d.textColumn(p, p.correlationID, vals, m)
	m.Priority, m.MaxAttempts = d.number(p, p.priority, vals, m), d.number(p, p.maxAttempts, vals, m)
	m.AvailableAt, m.CreatedAt = d.time(p, p.availableAt, vals, m), d.time(p, p.createdAt, vals, m)
}

// time is a column's time. NULL is the zero time.
func (d *decoder) time(p *plan, i int, vals []value, m *outbox.Message) time.Time {
	if i < 0 || vals[i].tag == tagNull {
		return time.Time{}
	}
	t, err := vals[i].time(&p.cols[i].column)
	if err != nil {
		d.fault(p, i, m, err)
	}
	return t
}

// number is a column's whole number. NULL is 0.
func (d *decoder) number(p *plan, i int, vals []value, m *outbox.Message) int32 {
	if i < 0 || vals[i].tag == tagNull {
		return 0
	}
	n, err := vals[i].integer(&p.cols[i].column)
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = errors.New("it does not fit into 32 bits")
	}
	if err != nil {
		d.fault(p, i, m, err)
		return 0
	}
	return int32(n)
}

// body fills key, payload, headers and fields.
func (d *decoder) body(p *plan, vals []value, m *outbox.Message) {
	var err error
	if m.Key, _, err = d.column(p, p.key, vals); err != nil {
		d.fault(p, p.key, m, err)
	}
	if m.Payload, err = d.payloadOf(p, vals); err != nil {
		d.fault(p, p.payload, m, err)
	}
	if text, null, err := d.column(p, p.headers, vals); err != nil {
		d.fault(p, p.headers, m, err)
	} else if !null {
		if d.headerBuf, err = sqlstore.AppendHeaders(d.headerBuf[:0], text); err != nil {
			d.fault(p, p.headers, m, err)
		}
		m.Headers = d.HeaderList(d.headerBuf)
	}
	if len(p.fields) == 0 {
		return
	}
	m.Fields = d.FieldList(len(p.fields))
	for n, i := range p.fields {
		f := &m.Fields[n]
		f.Name = p.cols[i].name
		if f.Value, f.Null, err = d.column(p, i, vals); err != nil {
			d.fault(p, i, m, err)
		}
	}
}

// payloadOf is the payload byte for byte as the application wrote it: binary types as they are, all else as its text.
func (d *decoder) payloadOf(p *plan, vals []value) ([]byte, error) {
	if p.payload < 0 || vals[p.payload].tag == tagNull || vals[p.payload].tag == tagDropped {
		return nil, nil
	}
	v, c := &vals[p.payload], &p.cols[p.payload].column
	if c.kind == kindUUID || c.kind == kindBit {
		b := d.Alloc(max(c.size, len(v.data)))
		clear(b[copy(b, v.data):]) // the log leaves trailing zeros out
		return b, nil
	}
	b, _, err := d.column(p, p.payload, vals)
	return b, err
}
