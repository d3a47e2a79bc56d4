package sqlstore

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// AppendJSONText writes s as a JSON string. Only what must be is escaped, so that bytes that are no UTF-8 (of a database in
// SQL_ASCII) stay what they are.
func AppendJSONText[T string | []byte](b []byte, s T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// HeadersJSON writes headers as a JSON object in their order; nil for none. AppendHeaders reads it.
func HeadersJSON(hs []outbox.Header) *string {
	if len(hs) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i := range hs {
		b = appendPair(b, i, hs[i].Name, hs[i].Value, hs[i].Value == nil)
	}
	text := string(append(b, '}'))
	return &text
}

// FieldsJSON writes further columns in the same way, those that are bare without quotes.
func FieldsJSON(fs []outbox.Field) *string {
	if len(fs) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i := range fs {
		b = appendPair(b, i, fs[i].Name, fs[i].Value, fs[i].Null)
		if n := len(fs[i].Value); fs[i].Bare && !fs[i].Null && n > 0 && !bytes.ContainsAny(fs[i].Value, "\"\\") && json.Valid(fs[i].Value) {
			b = append(b[:len(b)-n-2], fs[i].Value...) // nothing in it had to be escaped
		}
	}
	text := string(append(b, '}'))
	return &text
}

func appendPair(b []byte, i int, name string, value []byte, null bool) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(AppendJSONText(b, name), ':')
	if null {
		return append(b, "null"...)
	}
	return AppendJSONText(b, value)
}

// ParseHeaders and ParseFields read the columns back.
func ParseHeaders(text *string) ([]outbox.Header, error) {
	if text == nil {
		return nil, nil
	}
	hs, err := AppendHeaders(nil, []byte(*text))
	if err != nil {
		return nil, fmt.Errorf("read column headers: %w", err)
	}
	return hs, nil
}

func ParseFields(text *string) ([]outbox.Field, error) {
	if text == nil {
		return nil, nil
	}
	var bare []bool
	hs, err := appendHeaders(nil, []byte(*text), func(quoted bool) { bare = append(bare, !quoted) })
	if err != nil {
		return nil, fmt.Errorf("read column fields: %w", err)
	}
	if hs == nil {
		return nil, nil
	}
	fs := make([]outbox.Field, len(hs))
	for i, h := range hs {
		fs[i] = outbox.Field{Name: h.Name, Value: h.Value, Null: h.Value == nil, Bare: bare[i] && h.Value != nil}
	}
	return fs, nil
}
