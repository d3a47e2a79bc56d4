package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

// eventType names the relay's metadata.
const eventType = "tailbox_message"

// body is what is posted. An error says what is wrong with the message.
func (s *Sink) body(d *sink.Delivery) ([]byte, error) {
	object := sink.IsJSON(d.Value) && bytes.HasPrefix(bytes.TrimLeft(d.Value, " \t\r\n"), []byte{'{'})
	if s.cfg.WebhookURL != "" {
		if object {
			return d.Value, nil
		}
		return withText([]byte{'{'}, d)
	}
	channel, err := s.channel(d)
	if err != nil {
		return nil, err
	}
	b := sink.AppendString([]byte(`{"channel":`), channel)
	if !object {
		return withText(append(s.appendMetadata(append(b, ','), d), ','), d)
	}
	return s.merge(b, d)
}

// withText ends an object with the payload as its text.
func withText(b []byte, d *sink.Delivery) ([]byte, error) {
	text := d.Value
	if len(text) == 0 {
		return nil, errors.New("the payload is empty: there is nothing to post")
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the payload is no text: want a JSON object, or UTF-8")
	}
	b = append(b, `"text":`...)
	var inner string
	if json.Unmarshal(text, &inner) == nil && text[0] == '"' {
		b = sink.AppendString(b, inner)
	} else {
		b = sink.AppendString(b, text)
	}
	return append(b, '}'), nil
}

// merge appends the payload's members to an object that has its channel, byte for byte.
func (s *Sink) merge(b []byte, d *sink.Delivery) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(d.Value))
	if _, err := decoder.Token(); err != nil { // the brace
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	own := false
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		text, _ := name.(string)
		if text == "channel" {
			continue // It is chosen already.
		}
		own = own || text == "metadata"
		b = append(append(sink.AppendString(append(b, ','), text), ':'), value...)
	}
	if !own {
		b = s.appendMetadata(append(b, ','), d)
	}
	return append(b, '}'), nil
}

// appendMetadata appends what the relay knows of the message, as Slack's message metadata.
func (s *Sink) appendMetadata(b []byte, d *sink.Delivery) []byte {
	m := d.Message
	b = append(b, `"metadata":{"event_type":"`+eventType+`","event_payload":{"id":`...)
	b = sink.AppendString(b, m.ID)
	if !s.cfg.OmitMetadata {
		b = sink.AppendString(append(b, `,"type":`...), m.Type)
		b = sink.AppendString(append(b, `,"group":`...), m.GroupText())
		b = sink.AppendString(append(b, `,"position":`...), m.Position.String())
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(d.Attempt), 10)
		b = sink.AppendString(append(b, `,"source":`...), d.Source)
	}
	return append(b, '}', '}')
}
