package sink

import "unicode/utf8"

// maxDepth is how deep JSON may be nested to count as such; encoding/json has the same limit, and readers of ours
// would refuse more.
const maxDepth = 10000

// IsJSON reports whether v is one JSON value in UTF-8. It is json.Valid, several times as fast, because it is asked for
// every payload, and stricter: a document that is not UTF-8 is no JSON (RFC 8259, 8.1).
func IsJSON(v []byte) bool {
	i := scanValue(v, skipSpace(v, 0), 0)
	return i >= 0 && skipSpace(v, i) == len(v) && utf8.Valid(v)
}

func skipSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// scanValue returns the index after the value that starts at i, or -1 if there is none.
func scanValue(v []byte, i, depth int) int {
	if i >= len(v) {
		return -1
	}
	switch c := v[i]; c {
	case '"':
		return scanString(v, i+1)
	case '{', '[':
		if depth == maxDepth {
			return -1
		}
		if c == '{' {
			return scanObject(v, i+1, depth+1)
		}
		return scanArray(v, i+1, depth+1)
	case 't':
		return scanWord(v, i, "true")
	case 'f':
		return scanWord(v, i, "false")
	case 'n':
		return scanWord(v, i, "null")
	}
	return scanNumber(v, i)
}

func scanWord(v []byte, i int, word string) int {
	if len(v)-i < len(word) || string(v[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func scanObject(v []byte, i, depth int) int {
	i = skipSpace(v, i)
	if i < len(v) && v[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(v) || v[i] != '"' {
			return -1
		}
		if i = scanString(v, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(v, i); i >= len(v) || v[i] != ':' {
			return -1
		}
		if i = scanValue(v, skipSpace(v, i+1), depth); i < 0 {
			return -1
		}
		if i = skipSpace(v, i); i >= len(v) {
			return -1
		}
		switch v[i] {
		case '}':
			return i + 1
		case ',':
			i = skipSpace(v, i+1)
		default:
			return -1
		}
	}
}

func scanArray(v []byte, i, depth int) int {
	i = skipSpace(v, i)
	if i < len(v) && v[i] == ']' {
		return i + 1
	}
	for {
		if i = scanValue(v, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(v, i); i >= len(v) {
			return -1
		}
		switch v[i] {
		case ']':
			return i + 1
		case ',':
			i = skipSpace(v, i+1)
		default:
			return -1
		}
	}
}

// scanString starts after the opening quote.
func scanString(v []byte, i int) int {
	for i < len(v) {
		switch c := v[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c != '\\':
			i++
		default:
			if i+1 >= len(v) {
				return -1
			}
			switch v[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if len(v)-i < 6 || !isHex(v[i+2]) || !isHex(v[i+3]) || !isHex(v[i+4]) || !isHex(v[i+5]) {
					return -1
				}
				i += 6
			default:
				return -1
			}
		}
	}
	return -1
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func scanNumber(v []byte, i int) int {
	if i < len(v) && v[i] == '-' {
		i++
	}
	switch {
	case i >= len(v):
		return -1
	case v[i] == '0':
		i++
	case v[i] >= '1' && v[i] <= '9':
		i = skipDigits(v, i)
	default:
		return -1
	}
	if i < len(v) && v[i] == '.' {
		if i++; i >= len(v) || !isDigit(v[i]) {
			return -1
		}
		i = skipDigits(v, i)
	}
	if i < len(v) && (v[i] == 'e' || v[i] == 'E') {
		i++
		if i < len(v) && (v[i] == '+' || v[i] == '-') {
			i++
		}
		if i >= len(v) || !isDigit(v[i]) {
			return -1
		}
		i = skipDigits(v, i)
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func skipDigits(v []byte, i int) int {
	for i < len(v) && isDigit(v[i]) {
		i++
	}
	return i
}
