package sqltext

import (
	"bytes"
	"regexp"
	"strings"
)

// Bare returns a statement without its comments and texts, so that no word of them is taken for a word of the statement. Comments become
// spaces, and texts in single quotes become empty. The content of a comment that the server executes (/*! */, MariaDB's /*M! */) stays; the
// server writes one that it did not execute as a plain comment. Double quotes may hold a name or a text, so they stay.
func Bare(q []byte) []byte {
	bare := make([]byte, 0, len(q))
	carriedOut := 0
	for len(q) > 0 {
		n := 1
		switch {
		case q[0] == '`' || q[0] == '"':
			n = quotedSize(q, q[0] == '"')
			bare = append(bare, q[:n]...)
		case q[0] == '\'':
			n = quotedSize(q, true)
			bare = append(bare, "''"...)
		case bytes.HasPrefix(q, []byte("/*!")), bytes.HasPrefix(q, []byte("/*M!")):
			n = bytes.IndexByte(q, '!') + 1
			for n < len(q) && q[n] >= '0' && q[n] <= '9' {
				n++
			}
			carriedOut++
			bare = append(bare, ' ')
		case carriedOut > 0 && bytes.HasPrefix(q, []byte("*/")):
			n = 2
			carriedOut--
			bare = append(bare, ' ')
		case bytes.HasPrefix(q, []byte("/*")):
			n = upTo(q, 2, "*/")
			bare = append(bare, ' ')
		case q[0] == '#', bytes.HasPrefix(q, []byte("--")) && (len(q) == 2 || q[2] <= ' '):
			n = upTo(q, 1, "\n")
			bare = append(bare, ' ')
		default:
			bare = append(bare, q[0])
		}
		q = q[n:]
	}
	return bare
}

// upTo is the size of what ends with end, looked for from a place on; all there is where it does not end.
func upTo(q []byte, from int, end string) int {
	if i := bytes.Index(q[from:], []byte(end)); i >= 0 {
		return from + i + len(end)
	}
	return len(q)
}

// quotedSize is the size of what stands in quotes like the first byte. Of doubled quotes the second one begins another text,
// which comes to the same. Quotes that do not end (the statement is cut off, or its session's mode gives backslashes no meaning)
// are no more than a byte: rather is a text taken for a part of the statement than the other way round.
func quotedSize(q []byte, backslash bool) int {
	for i := 1; i < len(q); i++ {
		switch {
		case q[i] == q[0]:
			return i + 1
		case backslash && q[i] == '\\':
			i++
		}
	}
	return 1
}

// settings are what MariaDB sets for a statement alone.
var settings = regexp.MustCompile(`(?is)^\s*(?:set\s+statement\b.*?\bfor\s+)+`)

// WithoutSettings returns a bare statement without MariaDB's SET STATEMENT … FOR before it.
func WithoutSettings(bare []byte) []byte { return bare[len(settings.Find(bare)):] }

// Verb returns the word of a bare statement that says what it does to rows, in upper case, and the statement from there on. WITH, and
// MariaDB's SET STATEMENT and ANALYZE, may stand before it.
func Verb(bare []byte) (verb string, rest []byte) {
	depth := 0
	bare = bytes.TrimLeft(bare, "( \t\r\n\f\v")
	for at := 0; at < len(bare); {
		switch c := bare[at]; {
		case c == '`' || c == '"' || c == '\'':
			at += quotedSize(bare[at:], c != '`')
			continue
		case c == '(':
			depth++
		case c == ')':
			depth--
		case letter(c):
			end := at
			for end < len(bare) && letter(bare[end]) {
				end++
			}
			word := strings.ToUpper(string(bare[at:end]))
			if verb == "" && word != "WITH" && word != "SET" && word != "ANALYZE" || depth == 0 && changesRows(word) {
				return word, bare[at:]
			}
			if verb == "" {
				verb, rest = word, bare
			}
			at = end
			continue
		}
		at++
	}
	return verb, rest
}

func letter(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func changesRows(word string) bool {
	switch word {
	case "INSERT", "REPLACE", "LOAD", "UPDATE", "DELETE":
		return true
	}
	return false
}

const (
	namePattern  = "(`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\\s`\".,()]+)"
	tablePattern = namePattern + `(?:\s*\.\s*` + namePattern + `)?`
)

var (
	insertTarget = regexp.MustCompile(`(?is)^(?:insert|replace)\b(?:\s+(?:low_priority|delayed|high_priority|ignore|into)\b)*\s*` + tablePattern)
	// A name in quotes that is like the word of a query is none.
	filledTable = regexp.MustCompile(`(?is)^create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?` + tablePattern + `.*[\s()]select[\s(` + "`" + `"'*@-]`)
	loadTarget  = regexp.MustCompile(`(?is)^load\b.*?\binto\s+table\s*` + tablePattern)
)

// Target returns the table into which a bare statement, from its verb on, inserts rows. Schema is "" if the statement names none.
func Target(rest []byte) (schema, table string, ok bool) {
	found := insertTarget.FindSubmatch(rest)
	if found == nil {
		found = loadTarget.FindSubmatch(rest)
	}
	if found == nil {
		return "", "", false
	}
	if len(found[2]) == 0 {
		return "", Unquote(found[1]), true
	}
	return Unquote(found[1]), Unquote(found[2]), true
}

// FilledTarget returns the table that a bare CREATE TABLE … SELECT creates. Schema is "" if the statement names none.
func FilledTarget(rest []byte) (schema, table string, ok bool) {
	switch found := filledTable.FindSubmatch(rest); {
	case found == nil:
		return "", "", false
	case len(found[2]) == 0:
		return "", Unquote(found[1]), true
	default:
		return Unquote(found[1]), Unquote(found[2]), true
	}
}

// Unquote returns a name without its quotes, if it has any.
func Unquote(b []byte) string {
	if len(b) < 2 || b[0] != '`' && b[0] != '"' {
		return string(b)
	}
	quote := string(b[:1])
	return strings.ReplaceAll(string(b[1:len(b)-1]), quote+quote, quote)
}
