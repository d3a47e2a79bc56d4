package router

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// defaultContextColumn is where Debezium looks for a trace context.
const defaultContextColumn = "tracingspancontext"

// contextHeaders are the headers of W3C Trace Context and Baggage, in the order in which they are added.
func contextHeaders() []string { return []string{"traceparent", "tracestate", "baggage"} }

// addContext passes the trace context of a row on as headers. A row without one, or with one that cannot be read, has
// none: a trace is no reason to hold a message up.
func (s *shaper) addContext(m *outbox.Message, d *sink.Delivery) {
	c, found := readColumn(m, s.contextColumn, nil)
	if !found || c.text == nil {
		return
	}
	context := parseProperties(c.text)
	for _, name := range contextHeaders() {
		value, ok := context[name]
		if !ok || name == "traceparent" && !isTraceParent(value) {
			continue
		}
		text := []byte(value)
		if s.jsonHeaders {
			text = cell{text: text}.appendJSON(nil)
		}
		d.Headers = append(d.Headers, outbox.Header{Name: name, Value: text})
	}
}

// isTraceParent tells whether a text has the form of W3C's traceparent: version-trace-parent-flags.
func isTraceParent(s string) bool {
	if len(s) < 55 || len(s) > 55 && s[55] != '-' || s[:2] == "ff" {
		return false
	}
	for i := range 55 {
		c := s[i]
		switch {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// parseProperties reads the text form of a java.util.Properties: lines of key=value, key:value or key value, comments that
// begin with # or !, lines that go on after a backslash, and escapes. It takes any text.
func parseProperties(text []byte) map[string]string {
	properties := map[string]string{}
	for len(text) > 0 {
		var line []byte
		line, text = logicalLine(text)
		if len(line) == 0 {
			continue
		}
		key, rest := propertyKey(line)
		properties[key] = unescapeProperty(rest)
	}
	return properties
}

// logicalLine returns the next line without its leading white space, joined with those that continue it; empty for a
// blank line or a comment.
func logicalLine(text []byte) (line, rest []byte) {
	var joined []byte
	for first := true; ; first = false {
		end := bytes.IndexAny(text, "\r\n")
		var natural []byte
		if end < 0 {
			natural, rest = text, nil
		} else {
			natural, rest = text[:end], text[end+1:]
			if text[end] == '\r' && len(rest) > 0 && rest[0] == '\n' {
				rest = rest[1:]
			}
		}
		natural = bytes.TrimLeft(natural, " \t\f")
		if first && len(natural) > 0 && (natural[0] == '#' || natural[0] == '!') {
			return nil, rest
		}
		slashes := len(natural) - len(bytes.TrimRight(natural, `\`))
		if slashes%2 == 0 || len(rest) == 0 {
			return append(joined, natural...), rest
		}
		joined = append(joined, natural[:len(natural)-1]...)
		text = rest
	}
}

// propertyKey splits a line at the first =, : or white space that is not escaped.
func propertyKey(line []byte) (key string, value []byte) {
	i := 0
	for i < len(line) && !bytes.ContainsRune([]byte("=: \t\f"), rune(line[i])) {
		if line[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(line))
	key = unescapeProperty(line[:i])
	value = bytes.TrimLeft(line[i:], " \t\f")
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = bytes.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

func unescapeProperty(s []byte) string {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s)
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'f':
			out = append(out, '\f')
		case 'u':
			if i+4 < len(s) {
				if r, err := strconv.ParseUint(string(s[i+1:i+5]), 16, 16); err == nil {
					out = utf8.AppendRune(out, rune(r))
					i += 4
					continue
				}
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
