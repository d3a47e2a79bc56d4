// Package quote writes names and values into SQL for MySQL and MariaDB. The text is for sessions that package server opens, and all others
// that speak utf8mb4 and have no NO_BACKSLASH_ESCAPES.
package quote

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

// Table is the quoted name of a table as configured: without a schema where none is, for the connection's database.
func Table(t *outbox.Table) string {
	if t.Schema == "" {
		return Ident(t.Name)
	}
	return Ident(t.Schema) + "." + Ident(t.Name)
}

// Ident quotes a name for SQL.
func Ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Text quotes a text for SQL, for sessions that server.Config.Connect opened, and all others without NO_BACKSLASH_ESCAPES.
func Text(s string) string { return string(appendQuoted(nil, s)) }

const (
	// timeLayout is how a time stands in a statement, in UTC.
	timeLayout = "2006-01-02 15:04:05.000000"
)

// LastDatetime is the end of DATETIME.
var LastDatetime = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)

// Bin is text for a binary column, or to be compared with one.
type Bin string

// List is text for binary columns, as the members of IN (…).
type List []string

// Raw is SQL that is put in as it is: never a value.
type Raw string

// Append writes a value as SQL. The session has no NO_BACKSLASH_ESCAPES and speaks utf8mb4, so that quote and backslash are the
// bytes that are special within quotes.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "NULL"...)
	case Raw:
		return append(b, v...)
	case string:
		if !utf8.ValidString(v) {
			v = strings.ToValidUTF8(v, "\uFFFD")
		}
		return appendQuoted(b, v)
	case Bin:
		return appendQuoted(append(b, "_binary"...), string(v))
	case []byte:
		if v == nil {
			return append(b, "NULL"...)
		}
		return appendQuoted(append(b, "_binary"...), v)
	case *string:
		if v == nil {
			return append(b, "NULL"...)
		}
		return appendQuoted(append(b, "_binary"...), *v)
	case List:
		for i := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendQuoted(append(b, "_binary"...), v[i])
		}
		return b
	case bool:
		if v {
			return append(b, '1')
		}
		return append(b, '0')
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case uint32:
		return strconv.AppendUint(b, uint64(v), 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case time.Time:
		v = v.UTC()
		switch { // a text of a row, with an offset, can be a time that no DATETIME holds
		case v.IsZero(), v.Year() < 0:
			return append(b, "NULL"...)
		case v.Year() > 9999:
			v = LastDatetime
		}
		b = v.AppendFormat(append(b, '\''), timeLayout)
		return append(b, '\'')
	}
	return append(b, fmt.Sprintf("/* no literal for %T */", v)...) // a syntax error, which a test shows
}

func appendQuoted[T string | []byte](b []byte, s T) []byte {
	special := 0
	for i := range len(s) {
		if s[i] == '\'' || s[i] == '\\' {
			special++
		}
	}
	b = slices.Grow(b, len(s)+special+2) // at once: a payload of 10 MiB would be in memory twice while the slice grows
	b = append(b, '\'')
	if special == 0 {
		return append(append(b, s...), '\'')
	}
	for i := range len(s) {
		if s[i] == '\'' || s[i] == '\\' {
			b = append(b, s[i])
		}
		b = append(b, s[i])
	}
	return append(b, '\'')
}

// OrNull is NULL for an empty text.
func OrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
