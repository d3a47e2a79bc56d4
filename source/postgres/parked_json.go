package postgres

import (
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// appendJSONText writes s as a JSON string. Only what must be is escaped, so that bytes that are no UTF-8 (of a database in
// SQL_ASCII) stay what they are.
func appendJSONText[T string | []byte](b []byte, s T) []byte {
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

// headersJSON writes headers as a JSON object in their order; nil for none. appendHeaders reads it.
func headersJSON(hs []outbox.Header) *string {
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

// fieldsJSON writes further columns in the same way.
func fieldsJSON(fs []outbox.Field) *string {
	if len(fs) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i := range fs {
		b = appendPair(b, i, fs[i].Name, fs[i].Value, fs[i].Null)
	}
	text := string(append(b, '}'))
	return &text
}

func appendPair(b []byte, i int, name string, value []byte, null bool) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(appendJSONText(b, name), ':')
	if null {
		return append(b, "null"...)
	}
	return appendJSONText(b, value)
}

// parseHeaders and parseFields read the columns back.
func parseHeaders(text *string) ([]outbox.Header, error) {
	if text == nil {
		return nil, nil
	}
	hs, err := appendHeaders(nil, []byte(*text))
	if err != nil {
		return nil, fmt.Errorf("read column headers: %w", err)
	}
	return hs, nil
}

func parseFields(text *string) ([]outbox.Field, error) {
	hs, err := parseHeaders(text)
	if err != nil || hs == nil {
		return nil, err
	}
	fs := make([]outbox.Field, len(hs))
	for i, h := range hs {
		fs[i] = outbox.Field{Name: h.Name, Value: h.Value, Null: h.Value == nil}
	}
	return fs, nil
}
