package router

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// envelopePayload is the name of the payload in an envelope.
const envelopePayload = "payload"

// A body makes the value of a payload where it does not go as it is.
type body struct {
	expand, dropNulls, dropEmpty bool
	// json: a payload that is not expanded is written as a JSON string.
	json   bool
	schema connectSchema
	// typed is a reading's.
	typed bool
	// envelope, if any, makes the value an object of the payload and these columns.
	envelope []placement
}

// newBody returns nil if the payload is the value. The envelope is left to the caller.
func newBody(s *spec) *body {
	b := &body{expand: s.expand, dropNulls: s.dropNulls, dropEmpty: s.dropEmpty, json: s.jsonValue, schema: newConnectSchema(s.valueSchema)}
	enveloped := false
	for _, p := range s.placements {
		enveloped = enveloped || p.kind == placeEnvelope
	}
	if !b.expand && !b.json && !enveloped {
		return nil
	}
	return b
}

func (b *body) write(m *outbox.Message, d *sink.Delivery) error {
	payload := m.Payload
	binary, expanded := b.typed && m.Binary, false
	if b.expand && !binary {
		payload, expanded = expand(m.Payload, b.dropNulls, b.dropEmpty)
	}
	if len(b.envelope) == 0 {
		switch {
		case !b.json || expanded:
			d.Value = payload
		default:
			d.Value = b.schema.append(make([]byte, 0, len(payload)+len(payload)/8+len(b.schema.open)+3), cell{text: payload, bytes: binary})
		}
		return nil
	}
	v := make([]byte, 0, len(payload)+len(payload)/8+64)
	v = append(append(append(v, `{"`...), envelopePayload...), `":`...)
	v = cell{payload, expanded, binary}.appendJSON(v)
	for i := range b.envelope {
		p := &b.envelope[i]
		c, found := p.from.read(m)
		if !found {
			if err := p.missing(); err != nil {
				return err
			}
			continue
		}
		v = append(appendString(append(v, ','), p.alias), ':')
		v = c.appendJSON(v)
	}
	d.Value = append(v, '}')
	return nil
}

// A jsonColumn writes a column as JSON.
type jsonColumn struct {
	from   reading
	schema connectSchema
}

func (j *jsonColumn) write(m *outbox.Message) []byte {
	c, _ := j.from.read(m)
	return j.schema.append(nil, c)
}
