package columns

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/tailbox/tailbox/outbox"
)

// ErrHeaders means that a text is no JSON object of headers.
var ErrHeaders = errors.New("headers are not a JSON object")

// AppendHeaders reads a JSON object as headers, in the order of the text: a string is its text, null a header without
// value, anything else its JSON. Names and values point into text where they have no escapes, so text must never change
// again.
func AppendHeaders(hs []outbox.Header, text []byte) ([]outbox.Header, error) {
	return EachHeader(hs, text, nil)
}

// BoundedHeaders is AppendHeaders for what an application wrote: it reads no further than the first header that is beyond a bound, which is the
// error, and returns none then.
func BoundedHeaders(hs []outbox.Header, text []byte) ([]outbox.Header, error) {
	var b outbox.HeaderBounds
	size := 0
	all, err := EachHeader(hs, text, func(h *outbox.Header, _ bool) error {
		size += len(h.Name) + len(h.Value)
		return b.Add(h)
	})
	if err != nil {
		return hs, err
	}
	if len(text) > 4*size+1024 { // or white space would stay in memory with them, and nobody counts it
		for i := len(hs); i < len(all); i++ {
			all[i].Name, all[i].Value = strings.Clone(all[i].Name), bytes.Clone(all[i].Value)
		}
	}
	return all, nil
}

// EachHeader shows see, if it is not nil, each header and whether its value stands in quotes. It ends at an error of see. An empty text and an empty list are no
// headers: programs write an empty map so, PHP the list.
func EachHeader(hs []outbox.Header, text []byte, see func(h *outbox.Header, quoted bool) error) ([]outbox.Header, error) {
	if skipSpace(text, 0) == len(text) || emptyList(text) {
		return hs, nil
	}
	err := eachMember(text, func(name, value []byte, quoted bool) error {
		hs = append(hs, outbox.Header{Name: unsafe.String(unsafe.SliceData(name), len(name)), Value: value})
		if see == nil {
			return nil
		}
		return see(&hs[len(hs)-1], quoted)
	})
	return hs, err
}

// eachMember shows see the members of an object in their order: the text of a string, nil for null, the JSON of anything else. It ends at an error of
// see. Null is taken for an empty object, as some libraries write none.
func eachMember(text []byte, see func(name, value []byte, quoted bool) error) error {
	i := skipSpace(text, 0)
	if string(text[i:min(i+4, len(text))]) == "null" {
		return endOfHeaders(text, i+4)
	}
	if i >= len(text) || text[i] != '{' {
		return ErrHeaders
	}
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == '}' {
		return endOfHeaders(text, i+1)
	}
	for {
		name, next, err := jsonString(text, i)
		if err != nil {
			return err
		}
		i = skipSpace(text, next)
		if i >= len(text) || text[i] != ':' {
			return ErrHeaders
		}
		i = skipSpace(text, i+1)
		quoted := i < len(text) && text[i] == '"'
		var value []byte
		if value, i, err = headerValue(text, i); err != nil {
			return err
		}
		if err := see(name, value, quoted); err != nil {
			return err
		}
		i = skipSpace(text, i)
		switch {
		case i >= len(text):
			return ErrHeaders
		case text[i] == '}':
			return endOfHeaders(text, i+1)
		case text[i] != ',':
			return ErrHeaders
		}
		i = skipSpace(text, i+1)
	}
}

// emptyList reports whether a text is the JSON of a list without elements.
func emptyList(text []byte) bool {
	if i := skipSpace(text, 0); i < len(text) && text[i] == '[' {
		i = skipSpace(text, i+1)
		return i < len(text) && text[i] == ']' && skipSpace(text, i+1) == len(text)
	}
	return false
}

func endOfHeaders(text []byte, i int) error {
	if skipSpace(text, i) != len(text) {
		return ErrHeaders
	}
	return nil
}

// headerValue reads the value that starts at i, and returns where it ends.
func headerValue(text []byte, i int) (v []byte, end int, err error) {
	if i < len(text) && text[i] == '"' {
		return jsonString(text, i)
	}
	end = jsonEnd(text, i)
	v = text[i:end:end]
	if !json.Valid(v) {
		return nil, end, ErrHeaders
	}
	if string(v) == "null" {
		return nil, end, nil
	}
	return v, end, nil
}

// jsonEnd finds where a value that is no string ends: at the first comma, bracket or space outside of it.
func jsonEnd(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return len(text)
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// jsonString reads the string whose opening quote is at i. The result is never nil without an error.
func jsonString(text []byte, i int) (s []byte, end int, err error) {
	if i >= len(text) || text[i] != '"' {
		return nil, i, ErrHeaders
	}
	for j := i + 1; j < len(text); j++ {
		switch c := text[j]; {
		case c == '"':
			return text[i+1 : j : j], j + 1, nil
		case c == '\\':
			return escapedString(text, i, j)
		case c < 0x20:
			return nil, j, ErrHeaders
		}
	}
	return nil, len(text), ErrHeaders
}

// escapedString reads a string that starts at i and has its first escape at j. Bytes that are no UTF-8 stay what they are.
func escapedString(text []byte, i, j int) (s []byte, end int, err error) {
	s = append([]byte{}, text[i+1:j]...)
	for j < len(text) {
		switch c := text[j]; {
		case c == '"':
			return s, j + 1, nil
		case c < 0x20:
			return nil, j, ErrHeaders
		case c != '\\':
			s = append(s, c)
			j++
			continue
		case j+1 >= len(text):
			return nil, j, ErrHeaders
		}
		const names, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		if n := strings.IndexByte(names, text[j+1]); n >= 0 {
			s = append(s, meant[n])
			j += 2
			continue
		}
		r, n := escapedRune(text[j:])
		if n == 0 {
			return nil, j, ErrHeaders
		}
		s = utf8.AppendRune(s, r)
		j += n
	}
	return nil, len(text), ErrHeaders
}

// escapedRune reads \uXXXX, or two of them that are one character together; n is 0 if there is none.
func escapedRune(text []byte) (r rune, n int) {
	unit := func(b []byte) (rune, bool) {
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0, false
		}
		u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
		return rune(u), err == nil
	}
	r, ok := unit(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := unit(text[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf16.DecodeRune(r, low), 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}
