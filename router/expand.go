package router

import (
	"encoding/base64"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

// expand returns a JSON object or array without its white space, and true; or what is none as it is. It may leave out
// members of objects that are null, and those that are empty arrays. Everything else, such as the digits of numbers, the
// order of members and repeated ones, stays.
func expand(payload []byte, dropNulls, dropEmpty bool) ([]byte, bool) {
	if len(payload) == 0 || payload[0] != '{' && payload[0] != '[' || !sink.IsJSON(payload) {
		return payload, false
	}
	e := expander{in: payload, out: make([]byte, 0, len(payload)), dropNulls: dropNulls, dropEmpty: dropEmpty}
	e.value()
	return e.out, true
}

// An expander copies valid JSON. Its recursion is bounded by the depth that sink.IsJSON allows.
type expander struct {
	in                   []byte
	i                    int
	out                  []byte
	dropNulls, dropEmpty bool
}

// space skips white space, and returns the byte after it.
func (e *expander) space() byte {
	for e.in[e.i] <= ' ' {
		e.i++
	}
	return e.in[e.i]
}

func (e *expander) value() {
	switch e.space() {
	case '{':
		e.list('}', e.member)
	case '[':
		e.list(']', func() bool { e.value(); return true })
	case '"':
		e.text()
	default:
		e.word()
	}
}

// list copies an object or an array up to its end. item copies one part of it, and says whether it is to stay.
func (e *expander) list(end byte, item func() bool) {
	e.out = append(e.out, e.in[e.i])
	e.i++
	first := true
	for c := e.space(); c != end; c = e.space() {
		if c == ',' {
			e.i++
			continue
		}
		before := len(e.out)
		if !first {
			e.out = append(e.out, ',')
		}
		if !item() {
			e.out = e.out[:before]
			continue
		}
		first = false
	}
	e.i++
	e.out = append(e.out, end)
}

func (e *expander) member() bool {
	e.text()
	e.space() // the colon
	e.i++
	e.out = append(e.out, ':')
	before := len(e.out)
	c := e.space()
	e.value()
	return !(e.dropNulls && c == 'n' || e.dropEmpty && c == '[' && len(e.out) == before+len("[]"))
}

func (e *expander) text() {
	from := e.i
	for e.i++; e.in[e.i] != '"'; e.i++ {
		if e.in[e.i] == '\\' {
			e.i++
		}
	}
	e.i++
	e.out = append(e.out, e.in[from:e.i]...)
}

// word copies a number, true, false or null.
func (e *expander) word() {
	from := e.i
	for c := e.in[e.i]; c > ' ' && c != ',' && c != ']' && c != '}'; c = e.in[e.i] {
		e.i++
	}
	e.out = append(e.out, e.in[from:e.i]...)
}

// appendString appends a text as a JSON string as Kafka's JSON converter writes it, byte for byte: no more is escaped than must be,
// but what is beyond the 16 bits of a Java character. Bytes that are not UTF-8 are written in base64, as that converter does with
// all binary columns.
func appendString[S string | []byte](b []byte, s S) []byte {
	const hex = "0123456789ABCDEF"
	if !utf8.ValidString(string(s)) {
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), []byte(s)), '"')
	}
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0xf0 {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				continue
			}
			r, n := utf8.DecodeRuneInString(string(s[i : i+4]))
			high, low := utf16.EncodeRune(r)
			for _, half := range [2]rune{high, low} {
				b = append(b, '\\', 'u', hex[half>>12&15], hex[half>>8&15], hex[half>>4&15], hex[half&15])
			}
			i += n - 1
			start = i + 1
		}
	}
	return append(append(b, s[start:]...), '"')
}
