package document

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
func (d *Decoder) small(p *Plan, m *outbox.Message) {
	if p.typ >= 0 && d.vals[p.typ].Null() && !p.untyped {
		d.fault(p, p.typ, m, errors.New("it is missing or null"))
	}
	m.Type, m.Topic = d.word(p, p.typ, m), d.word(p, p.topic, m)
	m.Tenant, m.ContentType = d.word(p, p.tenant, m), d.word(p, p.contentType, m)
	m.IdempotencyKey, m.CorrelationID = d.textOf(p, p.idempotencyKey, m), d.textOf(p, p.correlationID, m)
	m.Priority, m.MaxAttempts = d.number(p, p.priority, m), d.number(p, p.maxAttempts, m)
	m.AvailableAt, m.CreatedAt = d.time(p, p.availableAt, m), d.time(p, p.createdAt, m)
}

// number is a column's whole number. Null is 0.
func (d *Decoder) number(p *Plan, i int, m *outbox.Message) int32 {
	if i < 0 || d.vals[i].Null() {
		return 0
	}
	var n int64
	var err error
	switch v := d.vals[i]; v.Type {
	case bson.TypeInt32:
		n = int64(v.Int32())
	case bson.TypeInt64:
		n = v.Int64()
	case bson.TypeDouble:
		var ok bool
		if n, ok = integral(v); !ok {
			err = errors.New("it has a fraction")
		}
	case bson.TypeString:
		n, err = strconv.ParseInt(string(v.Text()), 10, 32)
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
func (d *Decoder) time(p *Plan, i int, m *outbox.Message) time.Time {
	if i < 0 || d.vals[i].Null() {
		return time.Time{}
	}
	switch v := d.vals[i]; v.Type {
	case bson.TypeDateTime:
		return time.UnixMilli(v.Int64()).UTC()
	case bson.TypeTimestamp:
		return time.Unix(int64(v.Timestamp().T), 0).UTC()
	case bson.TypeInt32:
		return columns.EpochTime(int64(v.Int32()))
	case bson.TypeInt64:
		return columns.EpochTime(v.Int64())
	case bson.TypeDouble:
		if n, ok := integral(v); ok {
			return columns.EpochTime(n)
		}
	case bson.TypeString:
		if t, err := time.Parse(time.RFC3339Nano, string(v.Text())); err == nil {
			return t.UTC()
		}
	}
	d.fault(p, i, m, errors.New("it is no time"))
	return time.Time{}
}

// body fills key, payload, headers and fields.
func (d *Decoder) body(p *Plan, m *outbox.Message) {
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
	n := 0
	for _, i := range p.fields {
		if d.vals[i].Type == 0 && p.optional[i] {
			continue
		}
		f := &m.Fields[n]
		n++
		f.Name = p.names[i]
		if f.Value, err = d.column(i); err != nil {
			d.fault(p, i, m, err)
		}
		f.Null, f.Type = f.Value == nil, d.vals[i].fieldType()
	}
	m.Fields = m.Fields[:n]
}

// payloadOf is the payload: a string or binary byte for byte as the application wrote it, a document and whatever else there
// is as relaxed Extended JSON.
func (d *Decoder) payloadOf(p *Plan) ([]byte, error) {
	if p.payload < 0 || d.vals[p.payload].Null() || d.vals[p.payload].Type == typeDropped {
		return nil, nil
	}
	v := d.vals[p.payload]
	switch v.Type {
	case bson.TypeString:
		return d.CopyOf(v.Text()), nil
	case bson.TypeBinary:
		_, b := v.Binary()
		return d.CopyOf(b), nil
	}
	var err error
	if d.scratch, err = appendJSON(d.scratch[:0], v, 0); err != nil {
		return nil, err
	}
	var payload []byte
	payload, d.scratch = d.Keep(d.scratch)
	return payload, nil
}

var errHeaders = errors.New("headers are neither a document nor a JSON object")

// headers reads a document, or a string that holds a JSON object, in its order: a string is its text, null a header without
// value, anything else its JSON.
func (d *Decoder) headers(v Value, m *outbox.Message) error {
	var err error
	d.headerBuf = d.headerBuf[:0]
	switch {
	case v.Null():
		return nil
	case v.Type == typeDropped:
		return errDropped
	case v.Type == bson.TypeEmbeddedDocument:
		err = d.documentHeaders(v.Data)
	case v.Type == bson.TypeString:
		d.headerBuf, err = columns.BoundedHeaders(d.headerBuf, d.CopyOf(v.Text()))
	default:
		err = errHeaders
	}
	m.Headers = d.HeaderList(d.headerBuf)
	return err
}

func (d *Decoder) documentHeaders(doc []byte) error {
	e := ElementsOf(doc)
	var bounds outbox.HeaderBounds
	for {
		key, v, ok := e.Next()
		if !ok {
			return e.Err
		}
		h := outbox.Header{Name: d.Intern(key)}
		switch {
		case v.Null():
		case v.Type == bson.TypeString:
			h.Value = d.CopyOf(v.Text())
		case v.Type == bson.TypeBinary:
			_, b := v.Binary()
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
