package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
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

// typeLongGroup marks a long group. It stands where a field has its type.
const typeLongGroup = "group"

// FieldsJSON writes the further columns of a message as a JSON object: bare values without quotes, and values of another type as an object of type
// and value. The empty name, which no column has, marks two things that tailbox_parked has no column for: that the payload is binary, and a long
// group, which no index needs.
func FieldsJSON(m *outbox.Message) *string {
	if len(m.Fields) == 0 && !m.Binary && m.LongGroup == "" {
		return nil
	}
	b, n := []byte{'{'}, 0
	for ; n < len(m.Fields); n++ {
		b = appendField(b, n, &m.Fields[n])
	}
	if m.Binary {
		b = append(appendName(b, n, ""), "true"...)
		n++
	}
	if m.LongGroup != "" {
		b = append(appendPair(append(appendName(b, n, ""), '{'), 0, typeLongGroup, []byte(m.LongGroup), false), '}')
	}
	text := string(append(b, '}'))
	return &text
}

func appendField(b []byte, i int, f *outbox.Field) []byte {
	switch {
	case f.Null, f.Type == outbox.FieldText:
	case f.Type != outbox.FieldBare:
		return append(appendPair(append(appendName(b, i, f.Name), '{'), 0, string(f.Type), f.Value, false), '}')
	case len(f.Value) > 0 && !bytes.ContainsAny(f.Value, "{[\"\\") && json.Valid(f.Value):
		return append(appendName(b, i, f.Name), f.Value...)
	}
	return appendPair(b, i, f.Name, f.Value, f.Null)
}

func appendPair(b []byte, i int, name string, value []byte, null bool) []byte {
	b = appendName(b, i, name)
	if null {
		return append(b, "null"...)
	}
	return AppendJSONText(b, value)
}

func appendName(b []byte, i int, name string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return append(AppendJSONText(b, name), ':')
}

// ParseHeaders and ReadFields read the columns back.
func ParseHeaders(text *string) ([]outbox.Header, error) {
	if text == nil {
		return nil, nil
	}
	hs, err := columns.AppendHeaders(nil, []byte(*text))
	if err != nil {
		return nil, fmt.Errorf("read column headers: %w", err)
	}
	return hs, nil
}

// ReadFields fills in what FieldsJSON wrote.
func ReadFields(m *outbox.Message, text *string) error {
	if text == nil {
		return nil
	}
	var quoted []bool
	hs, err := columns.EachHeader(nil, []byte(*text), func(_ *outbox.Header, q bool) error { quoted = append(quoted, q); return nil })
	if err != nil {
		return fmt.Errorf("read column fields: %w", err)
	}
	for i, h := range hs {
		f := outbox.Field{Name: h.Name, Value: h.Value, Null: h.Value == nil}
		switch {
		case f.Name == "" && string(f.Value) == "true" && !quoted[i]:
			m.Binary = true
			continue
		case f.Null, quoted[i]:
		case f.Value[0] != '{':
			f.Type = outbox.FieldBare
		default:
			typed, err := columns.EachHeader(nil, f.Value, nil)
			if err != nil || len(typed) != 1 {
				return fmt.Errorf("read column fields: %w", columns.ErrHeaders)
			}
			f.Type, f.Value = outbox.FieldType(typed[0].Name), typed[0].Value
		}
		if f.Name == "" && f.Type == typeLongGroup {
			m.LongGroup = string(f.Value)
			continue
		}
		m.Fields = append(m.Fields, f)
	}
	return nil
}
