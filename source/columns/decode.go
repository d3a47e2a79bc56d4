package columns

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/arena"
)

// A Value is one column of a row as the database sent it.
type Value struct {
	// Tag says in which form Data is. Null and Dropped are the same for all databases.
	Tag byte
	// Owned: Data was made for this row alone, so the message may keep it without a copy.
	Owned bool
	Data  []byte
}

// Tags of a value.
const (
	Null    = 'n'
	Dropped = 'x' // not read, because its row is too large
)

// A Column reads the values of one column. Each database implements it for its types and for the forms that its values come in. Both
// forms of a value, that of the log and that of a query, must lead to the same text.
type Column interface {
	// Size returns how many bytes a value counts for max_message: its data's length at most.
	Size(v *Value) int
	// Raw returns the text of a value if it stands in the value's own bytes. Otherwise ok is false and AppendText makes it.
	Raw(v *Value) (b []byte, ok bool, err error)
	// AppendText appends the text of a value for which Raw has none.
	AppendText(dst []byte, v *Value) ([]byte, error)
	// Integer returns a value that comes as a number. Otherwise ok is false and its text is read.
	Integer(v *Value) (n int64, ok bool, err error)
	Time(v *Value) (time.Time, error)
	// Key and Payload return the bytes that the application wrote, if the text of the value is something else. Otherwise ok is false.
	Key(a *arena.Arena, v *Value) (b []byte, ok bool, err error)
	Payload(a *arena.Arena, v *Value) (b []byte, ok bool, err error)
	// Binary reports whether values are bytes. Type says what their text means.
	Binary() bool
	Type() outbox.FieldType
}

// AppendText appends the text of a value.
func AppendText(dst []byte, c Column, v *Value) ([]byte, error) {
	b, ok, err := c.Raw(v)
	switch {
	case err != nil:
		return dst, err
	case ok:
		return append(dst, b...), nil
	}
	return c.AppendText(dst, v)
}

// Integer reads a value as a whole number.
func Integer(c Column, v *Value) (int64, error) {
	if n, ok, err := c.Integer(v); ok || err != nil {
		return n, err
	}
	b, err := AppendText(nil, c, v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		// The error of ParseInt quotes the value, which may be anything.
		return 0, errors.New("it is not a whole number")
	}
	return n, nil
}

// Time reads a value as a time: a count since 1970 (EpochTime) if the column counts, or else its text by parse.
func Time(c Column, v *Value, counts bool, parse func(string) (time.Time, error)) (time.Time, error) {
	if counts {
		n, err := Integer(c, v)
		return EpochTime(n), err
	}
	b, err := AppendText(nil, c, v)
	if err != nil {
		return time.Time{}, err
	}
	return parse(string(b))
}

// A Decoder turns the values of rows into messages. It is pure, except for its arena. It is not safe for concurrent use.
type Decoder struct {
	arena.Arena
	MaxMessage int
	scratch    []byte
	headerBuf  []outbox.Header
}

// Decode fills m from a row. If a value cannot be understood, or is beyond its bound, Decode sets m.Fault and fills in the rest, because no
// row may stop tailbox by what it contains. An error means that the server sent something else than it announced. Bounds are checked
// here because every row passes here: those of the log, of a sweep, of a reconciliation, and of a parked delivery that is read again.
//
// If the id cannot be read, m has a fault and no ID, and the caller makes a stand-in of the row's position. Large says that the row is
// known to be larger than max_message. Nothing of vals is kept, except for data that is owned.
func (d *Decoder) Decode(p *Plan, vals []Value, large bool, m *outbox.Message) error {
	if len(vals) != len(p.Columns) {
		return fmt.Errorf("decode row of %s: %d columns, want %d", p.Table, len(vals), len(p.Columns))
	}
	m.Table = p.Table
	if large || p.tooLarge(vals, d.MaxMessage) {
		p.dropLarge(vals)
		m.Fault = p.TooLarge(d.MaxMessage)
	}
	id, null, err := d.column(p, p.ID, vals)
	switch {
	case err != nil:
		p.Nameless(m, d.MaxMessage, err.Error())
	case null || len(id) == 0:
		p.Nameless(m, d.MaxMessage, "it is NULL or empty")
	case len(id) > outbox.MaxIndexed:
		p.Nameless(m, d.MaxMessage, fmt.Sprintf("it has %d bytes, and at most %d can be indexed", len(id), outbox.MaxIndexed))
	default:
		m.ID = arena.StringOf(id)
	}
	d.group(p, vals, m)
	d.small(p, vals, m)
	d.body(p, vals, m)
	p.Refiner.Refine(m)
	p.Bound(m)
	return nil
}

// tooLarge reports whether what max_message bounds is beyond it: the bytes of all values that are part of the message and can be large.
// Nearly every row is so small that the sum of all its bytes answers that.
func (p *Plan) tooLarge(vals []Value, maxMessage int) bool {
	total := 0
	for i := range vals {
		total += len(vals[i].Data)
	}
	if total <= maxMessage {
		return false
	}
	total = 0
	for i := range vals {
		if p.Wanted[i] {
			total += p.Columns[i].Size(&vals[i])
		}
	}
	return total > maxMessage
}

// dropLarge drops the payload of a row that is too large, and every other value that is not small. Of a group it keeps one byte more than
// a group may have.
func (p *Plan) dropLarge(vals []Value) {
	for i := range vals {
		switch v := &vals[i]; {
		case p.Grouped(i) && v.Tag != Dropped:
			v.Data = v.Data[:min(len(v.Data), MaxSmall+1)]
		case i == p.Payload || len(v.Data) > MaxSmall:
			vals[i] = Value{Tag: Dropped}
		}
	}
}

// column copies a column's text into the arena. A column that does not exist is NULL.
func (d *Decoder) column(p *Plan, i int, vals []Value) (b []byte, null bool, err error) {
	if i < 0 || vals[i].Tag == Null {
		return nil, true, nil
	}
	v := &vals[i]
	if v.Tag == Dropped {
		return nil, false, ErrDropped()
	}
	b, ok, err := p.Columns[i].Raw(v)
	switch {
	case err != nil:
		return nil, false, err
	case ok && v.Owned && 2*len(b) >= len(v.Data): // or the blanks of a char(n) would stay in memory with it
		return b[:len(b):len(b)], false, nil
	case ok:
		return d.CopyOf(b), false, nil
	}
	if d.scratch, err = p.Columns[i].AppendText(d.scratch[:0], v); err != nil {
		return nil, false, err
	}
	b, d.scratch = d.Keep(d.scratch)
	return b, false, nil
}

// word returns a column's text, interned. NULL is "".
func (d *Decoder) word(p *Plan, i int, vals []Value, m *outbox.Message) string {
	if i < 0 || vals[i].Tag == Null {
		return ""
	}
	b, err := d.peek(p, i, vals)
	if err != nil {
		p.Fault(m, i, err)
		return ""
	}
	return d.Intern(b)
}

// peek returns a column's text, valid until the next call.
func (d *Decoder) peek(p *Plan, i int, vals []Value) ([]byte, error) {
	v := &vals[i]
	if v.Tag == Dropped {
		return nil, ErrDropped()
	}
	b, ok, err := p.Columns[i].Raw(v)
	if ok || err != nil {
		return b, err
	}
	d.scratch, err = p.Columns[i].AppendText(d.scratch[:0], v)
	return d.scratch, err
}

// text returns a column's text. NULL is "".
func (d *Decoder) text(p *Plan, i int, vals []Value, m *outbox.Message) string {
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
func (d *Decoder) group(p *Plan, vals []Value, m *outbox.Message) {
	if len(p.Group) == 0 {
		return
	}
	joined := d.scratch[:0]
	for n, i := range p.Group {
		v := &vals[i]
		if v.Tag == Null {
			return
		}
		if n > 0 {
			joined = append(joined, ':')
		}
		var err error
		if joined, err = AppendText(joined, p.Columns[i], v); err != nil {
			p.NoGroup(m, i, err)
			return
		}
	}
	if cap(joined) <= 2*outbox.MaxGroup { // or a rare long group would keep its memory
		d.scratch = joined
	}
	// If the row is too large, no more than this was read of it, and its group has to be the same as without.
	if m.SetGroup(d.Text(joined[:min(len(joined), outbox.MaxGroup+1)])) {
		p.LongGroup(m)
	}
}

// small fills in everything but id, group and body.
func (d *Decoder) small(p *Plan, vals []Value, m *outbox.Message) {
	if p.Type >= 0 && vals[p.Type].Tag == Null && !p.Untyped {
		p.Fault(m, p.Type, errors.New("it is NULL"))
	}
	m.Type, m.Topic = d.word(p, p.Type, vals, m), d.word(p, p.Topic, vals, m)
	m.Tenant, m.ContentType = d.word(p, p.Tenant, vals, m), d.word(p, p.ContentType, vals, m)
	m.IdempotencyKey = d.text(p, p.IdempotencyKey, vals, m)
	m.CorrelationID = d.text(p, p.CorrelationID, vals, m)
	m.Priority, m.MaxAttempts = d.number(p, p.Priority, vals, m), d.number(p, p.MaxAttempts, vals, m)
	m.AvailableAt, m.CreatedAt = d.time(p, p.AvailableAt, vals, m), d.time(p, p.CreatedAt, vals, m)
}

// time returns a column's time. NULL is the zero time.
func (d *Decoder) time(p *Plan, i int, vals []Value, m *outbox.Message) time.Time {
	if i < 0 || vals[i].Tag == Null {
		return time.Time{}
	}
	t, err := p.Columns[i].Time(&vals[i])
	if err != nil {
		p.Fault(m, i, err)
	}
	return t
}

// number returns a column's whole number. NULL is 0.
func (d *Decoder) number(p *Plan, i int, vals []Value, m *outbox.Message) int32 {
	if i < 0 || vals[i].Tag == Null {
		return 0
	}
	n, err := Integer(p.Columns[i], &vals[i])
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = errors.New("it does not fit into 32 bits")
	}
	if err != nil {
		p.Fault(m, i, err)
		return 0
	}
	return int32(n)
}

// body fills in key, payload, headers and fields.
func (d *Decoder) body(p *Plan, vals []Value, m *outbox.Message) {
	var err error
	if m.Key, err = d.key(p, vals); err != nil {
		p.Fault(m, p.Key, err)
	}
	if m.Payload, err = d.payload(p, vals); err != nil {
		p.Fault(m, p.Payload, err)
	}
	m.Binary = p.Payload >= 0 && p.Columns[p.Payload].Binary()
	if text, null, err := d.headers(p, vals); err != nil {
		p.Fault(m, p.Headers, err)
	} else if !null {
		if d.headerBuf, err = BoundedHeaders(d.headerBuf[:0], text); err != nil {
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
		f.Name, f.Type = p.Names[i], p.Columns[i].Type()
		if f.Value, f.Null, err = d.column(p, i, vals); err != nil {
			p.Fault(m, i, err)
		}
	}
}

// headers returns the text of the headers, which may stand in a column of bytes.
func (d *Decoder) headers(p *Plan, vals []Value) (text []byte, null bool, err error) {
	if i := p.Headers; i >= 0 && p.Columns[i].Binary() && vals[i].Tag != Null && vals[i].Tag != Dropped {
		if text, ok, err := p.Columns[i].Payload(&d.Arena, &vals[i]); ok || err != nil {
			return text, false, err
		}
	}
	return d.column(p, p.Headers, vals)
}

// key returns the key: bytes as they are, everything else as its text.
func (d *Decoder) key(p *Plan, vals []Value) ([]byte, error) {
	if i := p.Key; i >= 0 && !p.TextKey && vals[i].Tag != Null && vals[i].Tag != Dropped {
		if b, ok, err := p.Columns[i].Key(&d.Arena, &vals[i]); ok || err != nil {
			return b, err
		}
	}
	b, _, err := d.column(p, p.Key, vals)
	return b, err
}

// payload returns the payload byte for byte as the application wrote it: bytes as they are, everything else as its text.
func (d *Decoder) payload(p *Plan, vals []Value) ([]byte, error) {
	i := p.Payload
	if i < 0 || vals[i].Tag == Null || vals[i].Tag == Dropped {
		return nil, nil
	}
	if b, ok, err := p.Columns[i].Payload(&d.Arena, &vals[i]); ok || err != nil {
		return b, err
	}
	b, _, err := d.column(p, i, vals)
	return b, err
}
