package sinktest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// ReadLines reads back what sink.AppendLine wrote. A last line without its line break is left out.
func ReadLines(text []byte) ([]Arrival, error) {
	var as []Arrival
	for {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return as, nil
		}
		text = rest
		a, err := readLine(line)
		if err != nil {
			return as, fmt.Errorf("line %d: %w: %s", len(as)+1, err, line)
		}
		as = append(as, a)
	}
}

// WantLine is the Want of a Harness whose kind writes lines: headers are without tailbox-*, for these have fields.
func WantLine(d *sink.Delivery, a Arrival) Arrival {
	hs := sink.AppendHeaders(nil, d, false)[1:]
	a.Headers = append([]outbox.Header(nil), hs...)
	return a
}

func readLine(line []byte) (Arrival, error) {
	var fields struct {
		ID            string          `json:"id"`
		Key           *string         `json:"key"`
		KeyBase64     []byte          `json:"key_base64"`
		Payload       json.RawMessage `json:"payload"`
		PayloadBase64 []byte          `json:"payload_base64"`
		Headers       json.RawMessage `json:"headers"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return Arrival{}, err
	}
	a := Arrival{ID: fields.ID, Key: fields.KeyBase64, Value: fields.PayloadBase64}
	if fields.Key != nil {
		a.Key = []byte(*fields.Key)
	}
	var text string
	switch {
	case len(fields.Payload) == 0 || string(fields.Payload) == "null":
	case json.Unmarshal(fields.Payload, &text) == nil:
		a.Value = []byte(text)
	default:
		a.Value = fields.Payload
	}
	var err error
	a.Headers, err = readHeaders(fields.Headers)
	return a, err
}

// readHeaders reads an object member by member, because order and repetition matter.
func readHeaders(object []byte) (hs []outbox.Header, err error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, err
		}
		h := outbox.Header{Name: fmt.Sprint(name)}
		var text string
		var binary struct {
			Base64 []byte `json:"base64"`
		}
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			h.Value = []byte(text)
		default:
			if err := json.Unmarshal(raw, &binary); err != nil {
				return nil, err
			}
			h.Value = binary.Base64
		}
		hs = append(hs, h)
	}
	return hs, nil
}
