package session

import (
	"strings"
	"unicode/utf16"

	"github.com/jackc/pgx/v5/pgconn"
)

// An Encoding is what the database writes its texts in, by the server's own name; "" if a pooler keeps that to itself. Texts of the
// database's own can be written back whatever it is. What comes from elsewhere (an error of an endpoint, what a sink answered, our own
// words) may have characters that the database cannot write: the server refuses such a statement each time, for ever.
type Encoding string

// Encodings that are dealt with in a way of their own.
const (
	UTF8 Encoding = "UTF8"
	// NoEncoding is that of a server that takes bytes for what they are, and knows nothing of characters.
	NoEncoding Encoding = "SQL_ASCII"
)

// EncodingOf asks nothing: a server reports it to every session.
func EncodingOf(conn *pgconn.PgConn) Encoding {
	return Encoding(conn.ParameterStatus("server_encoding"))
}

// Narrow reports whether there are characters that the database cannot write.
func (e Encoding) Narrow() bool {
	return e != "" && e != UTF8 && e != NoEncoding
}

// Fit makes a foreign text one that the database can write. If e is Narrow, only ASCII is left, because no server tells which other characters its
// encoding has.
func (e Encoding) Fit(s string) string {
	if !e.Narrow() || isASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, strings.ReplaceAll(s, "\u2026", "..."))
}

// FitJSON does the same for JSON, where it can write every character as an ASCII escape. Use it only for columns that no statement looks into: the
// server refuses to decode such an escape.
func (e Encoding) FitJSON(s *string) *string {
	if s == nil || !e.Narrow() || isASCII(*s) {
		return s
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, r := range *s {
		if r < 0x80 {
			b.WriteByte(byte(r))
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hex[u>>shift&15])
			}
		}
	}
	text := b.String()
	return &text
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
