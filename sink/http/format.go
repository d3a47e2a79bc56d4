package http

import (
	"fmt"
	nethttp "net/http"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// Headers that the format array carries beside the payloads.
const (
	headerIDs       = "Tailbox-Ids"
	headerPositions = "Tailbox-Positions"
)

// maxList bounds each list in a header. Servers accept 8 KiB and more in all; the default of 100 messages with uuids
// makes lists of 3.7 and 3.5 KB.
const maxList = 3800

// newRequest makes a request of the first of ds, as many as it can hold.
func (s *Sink) newRequest(ds []*sink.Delivery) (request, error) {
	memory := s.bodies.Get().(*[]byte)
	b := (*memory)[:0]
	r := request{count: 1}
	var err error
	switch s.cfg.Format {
	case Single:
		b = append(b, ds[0].Value...)
		r.header, err = s.headers(ds[0], contentType(ds[0]))
	case CloudEvents:
		b = appendCloudEvent(b, ds[0], !s.cfg.OmitMetadata)
		r.header, err = s.headers(ds[0], "application/cloudevents+json; charset=utf-8")
	case CloudEventsBatch:
		r.count = len(ds)
		b = append(b, '[')
		for i, d := range ds {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCloudEvent(b, d, !s.cfg.OmitMetadata)
		}
		b = append(b, ']')
		r.header = s.batchHeaders("application/cloudevents-batch+json; charset=utf-8")
	default:
		b, r = s.array(b, ds)
	}
	*memory = b
	r.setBody(memory, &s.bodies)
	return r, err
}

// array makes a request of the first of ds whose ids and positions fit into headers.
func (s *Sink) array(b []byte, ds []*sink.Delivery) ([]byte, request) {
	r := request{header: s.batchHeaders("application/json")}
	ids := make([]byte, 0, min(len(ds)*40, maxList))
	positions := make([]byte, 0, min(len(ds)*36, maxList))
	b = append(b, '[')
	for i, d := range ds {
		before := len(ids)
		if i > 0 {
			b = append(b, ',')
			ids = append(ids, ',')
			positions = append(positions, ',')
		}
		ids = sink.AppendHeaderText(ids, d.Message.ID, ",")
		positions = d.Message.Position.Append(positions)
		if i > 0 && (len(ids) > maxList || len(positions) > maxList) {
			ids, positions, b = ids[:before], positions[:len(positions)-35], b[:len(b)-1]
			break
		}
		b = sink.AppendValue(b, d.Value)
		r.count++
	}
	r.header[headerIDs] = []string{string(ids)}
	if !s.cfg.OmitMetadata {
		r.header[headerPositions] = []string{string(positions)}
		r.header["Tailbox-Source"] = []string{sink.HeaderText(ds[0].Source)}
	}
	return append(b, ']'), r
}

// batchHeaders are the headers of a request with several messages.
func (s *Sink) batchHeaders(contentType string) nethttp.Header {
	h := make(nethttp.Header, len(s.fixed)+4)
	h["Content-Type"] = []string{contentType}
	for name, values := range s.fixed {
		h[name] = values
	}
	return h
}

// headers are the headers of a request with one message, in the order of sink.AppendHeaders where a name repeats.
func (s *Sink) headers(d *sink.Delivery, contentType string) (nethttp.Header, error) {
	m := d.Message
	h := make(nethttp.Header, 12+len(s.fixed)+len(d.Headers)+len(m.Headers))
	// One array for the values of all headers that occur once.
	values := make([]string, 0, 8)
	set := func(name, value string) {
		if old, ok := h[name]; ok {
			h[name] = append(old, value) // the first has an array of its own, so this copies no value of another name
			return
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if d.ID == nil {
		set("Id", sink.HeaderText(m.ID))
	} else {
		set("Id", sink.HeaderText(string(d.ID)))
	}
	key := m.IdempotencyKey
	if key == "" {
		key = sink.UniqueID(d)
	}
	for n, list := range [2][]outbox.Header{d.Headers, m.Headers} {
		for i := range list {
			name := canonical(list[i].Name)
			if n == 1 && (reserved(name) || privileged(name) && !s.pass[name]) {
				continue
			}
			if framing(name) || s.cfg.Format != Single && strings.HasPrefix(name, "Content-") {
				// The body of a CloudEvent is not what the message's content headers describe.
				continue
			}
			if !sink.ValidHeaderName(name) || !sink.ValidHeaderValue(list[i].Value) {
				return nil, sink.Permanent(fmt.Errorf("post to %s: HTTP cannot carry the message's header %q: "+
					"use the format cloudevents-batch, or change the header", s.target, sink.OneLine(list[i].Name)))
			}
			switch name {
			case "Content-Type":
				if m.ContentType == "" {
					contentType = string(list[i].Value)
				}
			case "Idempotency-Key":
				key = ""
				set(idempotencyName, string(list[i].Value))
			default:
				set(name, string(list[i].Value))
			}
		}
	}
	if key != "" {
		set(idempotencyName, idempotencyKey(key))
	}
	if !s.cfg.OmitMetadata {
		set("Tailbox-Type", sink.HeaderText(m.Type))
		set("Tailbox-Group", sink.HeaderText(m.GroupText()))
		set("Tailbox-Position", m.Position.String())
		set("Tailbox-Attempt", strconv.Itoa(d.Attempt))
		set("Tailbox-Source", sink.HeaderText(d.Source))
	}
	h["Content-Type"] = []string{contentType}
	for name, values := range s.fixed {
		h[name] = values
	}
	return h, nil
}

// idempotencyName is deliberately not in canonical form. To net/http that header in canonical form means that it may
// send the request again by itself after a connection broke; and an attempt is the relay's to count.
const idempotencyName = "idempotency-key"

// contentType is what the message says, else what its payload looks like.
func contentType(d *sink.Delivery) string {
	switch {
	case d.Message.ContentType != "" && sink.ValidHeaderValue(d.Message.ContentType):
		return d.Message.ContentType
	case sink.IsJSON(d.Value):
		return "application/json"
	}
	return "application/octet-stream"
}
