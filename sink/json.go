package sink

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

// AppendLine appends d as one line of JSON, ended by a newline, as the sinks of the kinds stdout and file write it:
//
//	{"id":…,"type":…,"topic":…,"group":…,"key":…,"headers":{…},"payload":…,"position":…,"attempt":…,"sink":…}
//
// group is null for a message without one, and so are key and payload where they are nil. key is a string, or if it is
// not UTF-8, key_base64 takes its place. payload is the JSON value itself where the bytes are JSON (byte for byte; only
// if it holds a line break, the insignificant white space is taken out), else a string where they are UTF-8, else
// payload_base64 takes its place. headers holds the router's placements and the application's own in their order, a
// repeated name repeated; a value is a string, null for nil, and {"base64":…} where it is not UTF-8.
func AppendLine(b []byte, d *Delivery, name string) []byte {
	m := d.Message
	b = AppendString(append(b, `{"id":`...), m.ID)
	b = AppendString(append(b, `,"type":`...), m.Type)
	b = AppendString(append(b, `,"topic":`...), d.Topic)
	b = append(b, `,"group":`...)
	if m.Group == "" {
		b = append(b, "null"...)
	} else {
		b = AppendString(b, m.GroupText())
	}
	switch {
	case d.Key == nil:
		b = append(b, `,"key":null`...)
	case utf8.Valid(d.Key):
		b = AppendString(append(b, `,"key":`...), d.Key)
	default:
		b = AppendBase64(append(b, `,"key_base64":`...), d.Key)
	}
	b = AppendHeaderObject(append(b, `,"headers":`...), d.Headers, m.Headers)
	switch {
	case d.Value == nil:
		b = append(b, `,"payload":null`...)
	case IsJSON(d.Value):
		b = appendOneLine(append(b, `,"payload":`...), d.Value)
	case utf8.Valid(d.Value):
		b = AppendString(append(b, `,"payload":`...), d.Value)
	default:
		b = AppendBase64(append(b, `,"payload_base64":`...), d.Value)
	}
	b = m.Position.Append(append(b, `,"position":"`...))
	b = strconv.AppendInt(append(b, `","attempt":`...), int64(d.Attempt), 10)
	b = AppendString(append(b, `,"sink":`...), name)
	return append(b, '}', '\n')
}

// AppendHeaderObject appends lists of headers as one JSON object, in their order.
func AppendHeaderObject(b []byte, lists ...[]outbox.Header) []byte {
	b = append(b, '{')
	first := true
	for _, list := range lists {
		for i := range list {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(AppendString(b, list[i].Name), ':')
			b = appendText(b, list[i].Value)
		}
	}
	return append(b, '}')
}

// AppendValue appends bytes to a JSON document where any value may stand: the bytes themselves if they are JSON, else a
// string if they are UTF-8, else {"base64":…}; nil is null.
func AppendValue(b, v []byte) []byte {
	if IsJSON(v) {
		return append(b, v...)
	}
	return appendText(b, v)
}

func appendText(b, v []byte) []byte {
	switch {
	case v == nil:
		return append(b, "null"...)
	case utf8.Valid(v):
		return AppendString(b, v)
	}
	return append(AppendBase64(append(b, `{"base64":`...), v), '}')
}

// AppendBase64 appends v as a JSON string in standard base64.
func AppendBase64(b, v []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"')
}

// appendOneLine appends valid JSON without its line breaks. White space is taken out only if there is one: a line
// break in JSON always is insignificant white space, for strings cannot hold it.
func appendOneLine(b, v []byte) []byte {
	if bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0 {
		return append(b, v...)
	}
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, v); err != nil {
		// IsJSON accepts nothing that Compact refuses; a string is right whatever happens.
		return AppendString(b, v)
	}
	return buf.Bytes()
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString[S string | []byte](b []byte, s S) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			// The conversion does not escape, and so does not allocate.
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				start = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
