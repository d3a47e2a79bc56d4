package document

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/columns"
)

// A Decoder turns documents into messages. It is pure but for its arena, and not safe for concurrent use.
type Decoder struct {
	arena.Arena
	MaxMessage int
	vals       []Value
	scratch    []byte
	headerBuf  []outbox.Header
}

// Decode fills m from a document. What cannot be understood, or is beyond its bound, becomes m.Fault, with the rest filled in: no document stops
// tailbox by what it contains. The id stays empty if it cannot be read, and a group that cannot be one has a stand-in. Bounds are checked here
// because every road from the collection to a sink passes here. An error is for what is no document. Nothing of doc is kept.
func (d *Decoder) Decode(p *Plan, doc []byte, m *outbox.Message) error {
	m.Table = p.Table
	if err := d.pick(p, doc); err != nil {
		return fmt.Errorf("read a document of %s: %w", p.Table, err)
	}
	large := d.size() > d.MaxMessage
	if large {
		m.Fault = tooLarge(p, d.MaxMessage)
	}
	d.group(p, m) // whole, as in a document that is not too large: its stand-in has to be the same
	if large {
		d.dropLarge(p)
	}
	if id, err := d.IDText(d.vals[p.id]); err != nil {
		d.nameless(p, m, err)
	} else {
		m.ID, m.Txn = arena.StringOf(id), uint64(kindOf(d.vals[p.id]))
	}
	d.small(p, m)
	d.body(p, m)
	p.refiner.Refine(m)
	p.bound(m)
	if !large && len(m.Payload) > d.MaxMessage { // as JSON it is longer than it was as BSON
		m.Payload = nil
		if m.Fault == nil {
			m.Fault = tooLarge(p, d.MaxMessage)
		}
	}
	return nil
}

// pick finds the wanted fields. Of a name that comes twice the first counts, as it does for the server.
func (d *Decoder) pick(p *Plan, doc []byte) error {
	if cap(d.vals) < len(p.names) {
		d.vals = make([]Value, len(p.names))
	}
	d.vals = d.vals[:len(p.names)]
	clear(d.vals)
	e := ElementsOf(doc)
	for {
		key, v, ok := e.Next()
		if !ok {
			return e.Err
		}
		if i := p.slot(key); i >= 0 && d.vals[i].Type == 0 {
			d.vals[i] = v
		}
	}
}

// nameless notes that the document's id cannot be read. The relay cannot find such a document in its table again.
func (d *Decoder) nameless(p *Plan, m *outbox.Message, why error) {
	const fix = "give the message an id (tailbox dead edit --new-id) or drop it; its document stays in the collection until you delete it"
	if m.Fault != nil && m.Fault.Class == outbox.FaultTooLarge {
		m.Fault.Reason = fmt.Sprintf("document of %s is larger than max_message (%d bytes), so its payload is not here, and its id (field %s) cannot be "+
			"read: %v: %s", p.Table, d.MaxMessage, p.names[p.id], why, fix)
		return
	}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("the id (field %s) of a document of %s cannot be read: %v: %s",
		p.names[p.id], p.Table, why, fix)}
}

// size is what max_message bounds: the bytes of all values that are part of the message.
func (d *Decoder) size() int {
	total := 0
	for i := range d.vals {
		total += len(d.vals[i].Data)
	}
	return total
}

func tooLarge(p *Plan, limit int) *outbox.Fault {
	return &outbox.Fault{Class: outbox.FaultTooLarge, Reason: fmt.Sprintf(
		"document of %s is larger than max_message (%d bytes): raise max_message and replay it, or drop it", p.Table, limit)}
}

// typeDropped marks a value that was not read because its document is too large.
const typeDropped bson.Type = 0xee

var errDropped = fmt.Errorf("it is larger than %d bytes in a document larger than max_message", columns.MaxSmall)

// dropLarge drops the payload of a document that is too large, and whatever else is not small.
func (d *Decoder) dropLarge(p *Plan) {
	for i := range d.vals {
		if i == p.payload || len(d.vals[i].Data) > columns.MaxSmall {
			d.vals[i] = Value{Type: typeDropped}
		}
	}
}

// fault notes the first thing that could not be understood.
func (d *Decoder) fault(p *Plan, i int, m *outbox.Message, err error) {
	if m.Fault == nil || p.routes(i) {
		columns.Undecodable(m, fmt.Sprintf("field %s of %s cannot be understood: %v: correct its writer, then edit or drop the message", p.names[i], p.Table, err))
	}
}

// bound notes the first part of the message that is beyond its bound, and cuts all those that are.
func (p *Plan) bound(m *outbox.Message) {
	over := m.Bound()
	if over == nil {
		return
	}
	i := map[string]int{"type": p.typ, "tenant": p.tenant, "topic": p.topic, "key": p.key, "content_type": p.contentType, "idempotency_key": p.idempotencyKey,
		"correlation_id": p.correlationID}[over.Name]
	if i < 0 {
		columns.Undecodable(m, fmt.Sprintf("%s of %s is beyond its bound: %s: shorten it at its writer, then edit or drop the message",
			p.refiner.Name(over.Name), p.Table, over.Why))
		return
	}
	if m.Fault == nil || p.routes(i) {
		columns.Undecodable(m, fmt.Sprintf("field %s of %s is beyond its bound: %s: shorten it at its writer, then edit or drop the message",
			p.names[i], p.Table, over.Why))
	}
}

// routes reports whether a message without field i may go to other sinks, or may not be this pipeline's.
func (p *Plan) routes(i int) bool {
	return i == p.typ || i == p.topic || i == p.tenant || i == p.headers
}

// IDText is a message's id in the arena: the hex digits of an ObjectID, a UUID as text, a string as it is, a number.
func (d *Decoder) IDText(v Value) ([]byte, error) {
	switch v.Type {
	case typeDropped:
		return nil, errDropped
	case bson.TypeString, bson.TypeObjectID, bson.TypeInt32, bson.TypeInt64:
	case bson.TypeDouble:
		if _, ok := integral(v); !ok {
			return nil, errors.New("it is a number with a fraction")
		}
	case bson.TypeBinary:
		if _, ok := v.uuid(); !ok {
			return nil, errors.New("it is binary, but no UUID")
		}
	default:
		if v.Null() {
			return nil, errors.New("it is missing or null")
		}
		return nil, fmt.Errorf("it is of type %s: want an ObjectID, a UUID, a string or an integer", v.Type)
	}
	var err error
	if d.scratch, err = appendText(d.scratch[:0], v); err != nil {
		return nil, err
	}
	switch n := len(d.scratch); {
	case n == 0:
		return nil, errors.New("it is empty")
	case n > outbox.MaxIndexed:
		return nil, fmt.Errorf("it has %d bytes, and may have %d", n, outbox.MaxIndexed)
	}
	return d.CopyOf(d.scratch), nil
}

// integral is the value of a double that is a whole number.
func integral(v Value) (int64, bool) {
	f := math.Float64frombits(uint64(v.Int64()))
	return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<63
}

// appendText appends a value as text: strings as they are, ids and numbers in their usual forms, documents as JSON.
func appendText(dst []byte, v Value) ([]byte, error) {
	switch v.Type {
	case typeDropped:
		return dst, errDropped
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		return append(dst, v.Text()...), nil
	case bson.TypeInt32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case bson.TypeInt64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case bson.TypeDouble:
		if n, ok := integral(v); ok {
			return strconv.AppendInt(dst, n, 10), nil
		}
		return strconv.AppendFloat(dst, math.Float64frombits(uint64(v.Int64())), 'g', -1, 64), nil
	case bson.TypeDecimal128:
		n, _ := v.RawValue().Decimal128OK()
		return append(dst, n.String()...), nil
	case bson.TypeBoolean:
		return strconv.AppendBool(dst, v.Data[0] != 0), nil
	case bson.TypeObjectID:
		return hex.AppendEncode(dst, v.Data), nil
	case bson.TypeDateTime:
		return appendDate(dst, v.Int64()), nil
	case bson.TypeBinary:
		if u, ok := v.uuid(); ok {
			return appendUUID(dst, u), nil
		}
		return dst, errors.New("it is binary, but no UUID")
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return appendJSON(dst, v, 0)
	}
	if v.Null() {
		return dst, nil
	}
	return dst, fmt.Errorf("it is of type %s", v.Type)
}

func appendUUID(dst, u []byte) []byte {
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// column copies a column's text into the arena; nil if it is null or does not exist. Bytes are bytes.
func (d *Decoder) column(i int) ([]byte, error) {
	if i < 0 || d.vals[i].Null() {
		return nil, nil
	}
	v := d.vals[i]
	if v.Type == bson.TypeString {
		return d.CopyOf(v.Text()), nil
	}
	if v.Type == bson.TypeBinary {
		if _, ok := v.uuid(); !ok {
			_, b := v.Binary()
			return d.CopyOf(b), nil
		}
	}
	var err error
	if d.scratch, err = appendText(d.scratch[:0], v); err != nil {
		return nil, err
	}
	var text []byte
	text, d.scratch = d.Keep(d.scratch)
	return text, nil
}

// word is a column's text, interned. Null is "".
func (d *Decoder) word(p *Plan, i int, m *outbox.Message) string {
	if i < 0 || d.vals[i].Null() {
		return ""
	}
	v := d.vals[i]
	if v.Type == bson.TypeString {
		return d.Intern(v.Text())
	}
	var err error
	if d.scratch, err = appendText(d.scratch[:0], v); err != nil {
		d.fault(p, i, m, err)
		return ""
	}
	return d.Intern(d.scratch)
}

// textOf is a column's text. Null is "".
func (d *Decoder) textOf(p *Plan, i int, m *outbox.Message) string {
	b, err := d.column(i)
	if err != nil {
		d.fault(p, i, m, err)
		return ""
	}
	return arena.StringOf(b)
}
