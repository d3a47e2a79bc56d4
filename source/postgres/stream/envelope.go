package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// An envelope is the content of a message that is in no table. One of the three payloads may be there.
type envelope struct {
	ID             string
	Type           string
	Topic          string
	Group          string
	Key            *string
	Headers        json.RawMessage
	Payload        json.RawMessage
	PayloadText    *string
	PayloadBase64  *string
	Tenant         string
	ContentType    string
	IdempotencyKey string
	CorrelationID  string
	Priority       int32
	MaxAttempts    int32
	AvailableAt    time.Time
	CreatedAt      time.Time
}

// members are where the values of an envelope go.
func (e *envelope) members() map[string]any {
	return map[string]any{"id": &e.ID, "type": &e.Type, "topic": &e.Topic, "group": &e.Group, "key": &e.Key, "headers": &e.Headers,
		"payload": &e.Payload, "payload_text": &e.PayloadText, "payload_base64": &e.PayloadBase64, "tenant": &e.Tenant,
		"content_type": &e.ContentType, "idempotency_key": &e.IdempotencyKey, "correlation_id": &e.CorrelationID, "priority": &e.Priority,
		"max_attempts": &e.MaxAttempts, "available_at": &e.AvailableAt, "created_at": &e.CreatedAt}
}

// parse reads the content. encoding/json would accept too much: member names in another case, a member that occurs twice, and half a surrogate pair.
// After an error it reads on, to find the group.
func (e *envelope) parse(content []byte) error {
	if !utf8.Valid(content) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(content))
	start, err := d.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if start != json.Delim('{') {
		return errors.New("read JSON: it is no object")
	}
	members, seen := e.members(), make(map[string]bool)
	var first error
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		if err := e.member(d, content, name.(string), members, seen); err != nil && first == nil {
			first = err
		}
		var syntax *json.SyntaxError
		if errors.As(first, &syntax) || errors.Is(first, io.ErrUnexpectedEOF) {
			return first
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) && first == nil {
		first = errors.New("read JSON: there is more than one object")
	}
	return first
}

// member reads the value of a member whose name was read.
func (e *envelope) member(d *json.Decoder, content []byte, name string, members map[string]any, seen map[string]bool) error {
	into := members[name]
	again := seen[name]
	if into != nil { // unknown names are not remembered: there may be any number of them
		seen[name] = true
	}
	switch {
	case into == nil:
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		return fmt.Errorf("unknown member %q", name)
	case again:
		if name == "group" {
			e.Group = "" // nobody knows which of them is meant
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		return fmt.Errorf("it has the member %q more than once", name)
	}
	from := d.InputOffset()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read JSON: member %q: %w", name, err)
	}
	if name == "payload" || !halved(content[from:d.InputOffset()]) { // the payload goes as it is written
		return nil
	}
	if name == "group" {
		e.Group = ""
	}
	return fmt.Errorf("member %q has half a surrogate pair, which is no character", name)
}

// halved reports whether a text in JSON names one half of a surrogate pair without the other.
func halved(text []byte) bool {
	unit := func(i int) uint64 {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(string(text[i+2:i+6]), 16, 16) // the decoder has checked that it is hexadecimal
		return u
	}
	const high, low, end = 0xd800, 0xdc00, 0xe000
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u >= low && u < end:
			return true
		case u >= high && u < low:
			if next := unit(i + 6); next < low || next >= end {
				return true
			}
			i += 6 + 5
		default:
			i++ // what is escaped may be a backslash
		}
	}
	return false
}

// payload is the one that is there; nil for none.
func (e *envelope) payload() ([]byte, error) {
	given := 0
	for _, there := range []bool{e.Payload != nil, e.PayloadText != nil, e.PayloadBase64 != nil} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("it has more than one of payload, payload_text and payload_base64")
	case e.PayloadText != nil:
		return []byte(*e.PayloadText), nil
	case e.PayloadBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*e.PayloadBase64)
		if err != nil {
			return nil, fmt.Errorf("payload_base64: %w", err)
		}
		return b, nil
	case string(e.Payload) == "null":
		return nil, nil
	}
	return e.Payload, nil
}
