package router

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// A Property is one entry of the text of a java.util.Properties.
type Property struct {
	Key, Value string
	// Line is where it begins, from 1.
	Line int
}

// ParseProperties reads the text form of a java.util.Properties, which Debezium uses for trace contexts and for its
// configuration: lines of key=value, key:value or key value, comments that begin with # or !, lines that go on after a
// backslash, and escapes. It takes any text. A key may be there more than once: the last one counts.
func ParseProperties(text []byte) []Property {
	var properties []Property
	for n := 1; len(text) > 0; {
		line, rest, lines := logicalLine(text)
		if len(line) > 0 {
			key, value := propertyKey(line)
			properties = append(properties, Property{Key: key, Value: unescapeProperty(value), Line: n})
		}
		text, n = rest, n+lines
	}
	return properties
}

// logicalLine returns the next line without its leading white space, joined with those that continue it, and how many they
// are; empty for a blank line or a comment.
func logicalLine(text []byte) (line, rest []byte, lines int) {
	var joined []byte
	for first := true; ; first = false {
		lines++
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
			return nil, rest, lines
		}
		slashes := len(natural) - len(bytes.TrimRight(natural, `\`))
		if slashes%2 == 0 || len(rest) == 0 {
			return append(joined, natural...), rest, lines
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
