package mongo

import (
	"errors"
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// small fills what is neither id, group nor body.
func (d *decoder) small(p *plan, m *outbox.Message) {
	if p.typ >= 0 && d.vals[p.typ].null() && !p.untyped {
		d.fault(p, p.typ, m, errors.New("it is missing or null"))
	}
	m.Type, m.Topic = d.word(p, p.typ, m), d.word(p, p.topic, m)
	m.Tenant, m.ContentType = d.word(p, p.tenant, m), d.word(p, p.contentType, m)
	m.IdempotencyKey, m.CorrelationID = d.textOf(p, p.idempotencyKey, m), d.textOf(p, p.correlationID, m)
	m.Priority, m.MaxAttempts = d.number(p, p.priority, m), d.number(p, p.maxAttempts, m)
	m.AvailableAt, m.CreatedAt = d.time(p, p.availableAt, m), d.time(p, p.createdAt, m)
}

// number is a column's whole number. Null is 0.
func (d *decoder) number(p *plan, i int, m *outbox.Message) int32 {
	if i < 0 || d.vals[i].null() {
		return 0
	}
	var n int64
	var err error
	switch v := d.vals[i]; v.typ {
	case bson.TypeInt32:
		n = int64(v.i32())
	case bson.TypeInt64:
		n = v.i64()
	case bson.TypeDouble:
		var ok bool
		if n, ok = integral(v); !ok {
			err = errors.New("it has a fraction")
		}
	case bson.TypeString:
		n, err = strconv.ParseInt(string(v.str()), 10, 32)
	default:
		err = errors.New("it is no number")
	}
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = errors.New("it does not fit into 32 bits")
	}
	if err != nil {
		d.fault(p, i, m, err)
		return 0
	}
	return int32(n)
}

// time is a column's time: a date, a timestamp, a count since 1970, or text as of RFC 3339. Null is the zero time.
func (d *decoder) time(p *plan, i int, m *outbox.Message) time.Time {
	if i < 0 || d.vals[i].null() {
		return time.Time{}
	}
	switch v := d.vals[i]; v.typ {
	case bson.TypeDateTime:
		return time.UnixMilli(v.i64()).UTC()
	case bson.TypeTimestamp:
		return time.Unix(int64(v.opTime()>>32), 0).UTC()
	case bson.TypeInt32:
		return columns.EpochTime(int64(v.i32()))
	case bson.TypeInt64:
		return columns.EpochTime(v.i64())
	case bson.TypeDouble:
		if n, ok := integral(v); ok {
			return columns.EpochTime(n)
		}
	case bson.TypeString:
		if t, err := time.Parse(time.RFC3339Nano, string(v.str())); err == nil {
			return t.UTC()
		}
	}
	d.fault(p, i, m, errors.New("it is no time"))
	return time.Time{}
}

// body fills key, payload, headers and fields.
func (d *decoder) body(p *plan, m *outbox.Message) {
	var err error
	if m.Key, err = d.column(p.key); err != nil {
		d.fault(p, p.key, m, err)
	}
	if m.Payload, err = d.payloadOf(p); err != nil {
		d.fault(p, p.payload, m, err)
	}
	if p.headers >= 0 {
		if err := d.headers(d.vals[p.headers], m); err != nil {
			d.fault(p, p.headers, m, err)
		}
	}
	if len(p.fields) == 0 {
		return
	}
	m.Fields = d.FieldList(len(p.fields))
	for n, i := range p.fields {
		f := &m.Fields[n]
		f.Name = p.names[i]
		if f.Value, err = d.column(i); err != nil {
			d.fault(p, i, m, err)
		}
		f.Null, f.Type = f.Value == nil, d.vals[i].fieldType()
	}
}

// payloadOf is the payload: a string or binary byte for byte as the application wrote it, a document and whatever else there
// is as relaxed Extended JSON.
func (d *decoder) payloadOf(p *plan) ([]byte, error) {
	if p.payload < 0 || d.vals[p.payload].null() || d.vals[p.payload].typ == typeDropped {
		return nil, nil
	}
	v := d.vals[p.payload]
	switch v.typ {
	case bson.TypeString:
		return d.CopyOf(v.str()), nil
	case bson.TypeBinary:
		_, b := v.binary()
		return d.CopyOf(b), nil
	}
	var err error
	if d.scratch, err = appendJSON(d.scratch[:0], v, 0); err != nil {
		return nil, err
	}
	payload := d.CopyOf(d.scratch)
	d.trim()
	return payload, nil
}

// trim gives up scratch space that a rare large document took, so that it does not cost memory for ever.
func (d *decoder) trim() {
	if cap(d.scratch) > 1<<20 {
		d.scratch = nil
	}
}

var errHeaders = errors.New("headers are neither a document nor a JSON object")

// headers reads a document, or a string that holds a JSON object, in its order: a string is its text, null a header without
// value, anything else its JSON.
func (d *decoder) headers(v value, m *outbox.Message) error {
	var err error
	d.headerBuf = d.headerBuf[:0]
	switch {
	case v.null():
		return nil
	case v.typ == typeDropped:
		return errDropped
	case v.typ == bson.TypeEmbeddedDocument:
		err = d.documentHeaders(v.data)
	case v.typ == bson.TypeString:
		d.headerBuf, err = columns.BoundedHeaders(d.headerBuf, d.CopyOf(v.str()))
	default:
		err = errHeaders
	}
	m.Headers = d.HeaderList(d.headerBuf)
	return err
}

func (d *decoder) documentHeaders(doc []byte) error {
	e := elementsOf(doc)
	var bounds outbox.HeaderBounds
	for {
		key, v, ok := e.next()
		if !ok {
			return e.err
		}
		h := outbox.Header{Name: d.Intern(key)}
		switch {
		case v.null():
		case v.typ == bson.TypeString:
			h.Value = d.CopyOf(v.str())
		case v.typ == bson.TypeBinary:
			_, b := v.binary()
			h.Value = d.CopyOf(b)
		default:
			text, err := appendText(nil, v)
			if err != nil {
				return err
			}
			h.Value = text
		}
		if err := bounds.Add(&h); err != nil {
			d.headerBuf = d.headerBuf[:0]
			return err
		}
		d.headerBuf = append(d.headerBuf, h)
	}
}
