package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/source"
)

const (
	// packetBytes is how much of a batch goes to the server at once. A statement that is larger goes alone.
	packetBytes = 1 << 20
	// packetSlack is what a packet holds beside the statement.
	packetSlack = 1 << 10
	// timeLayout is how a time stands in a statement, in UTC.
	timeLayout = "2006-01-02 15:04:05.000000"
	// separator stands between statements. It begins with a line of its own: the statement before it may end in a comment.
	separator = "\n;\n"
)

// lastDatetime is the end of DATETIME.
var lastDatetime = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)

// bin is text for a binary column, or to be compared with one.
type bin string

// list is text for binary columns, as the members of IN (…).
type list []string

// raw is SQL that is put in as it is: never a value.
type raw string

// A row is a row of a result. Its values are valid while the result is.
type row []mysql.FieldValue

func (r row) null(i int) bool { return r[i].Type == mysql.FieldValueTypeNull }

// text is a copy; "" for NULL.
func (r row) text(i int) string {
	if r.null(i) {
		return ""
	}
	return string(r[i].AsString())
}

// textOrNil is a copy; nil for NULL.
func (r row) textOrNil(i int) *string {
	if r.null(i) {
		return nil
	}
	text := r.text(i)
	return &text
}

// bytes is a copy; nil for NULL, and not nil for empty.
func (r row) bytes(i int) []byte {
	if r.null(i) {
		return nil
	}
	return append([]byte{}, r[i].AsString()...)
}

// num is a whole number; 0 for NULL and for what is none.
func (r row) num(i int) int64 {
	switch r[i].Type {
	case mysql.FieldValueTypeSigned:
		return r[i].AsInt64()
	case mysql.FieldValueTypeUnsigned:
		return int64(r[i].AsUint64())
	case mysql.FieldValueTypeFloat:
		return int64(r[i].AsFloat64())
	case mysql.FieldValueTypeString:
		n, err := strconv.ParseInt(string(r[i].AsString()), 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

func (r row) unsigned(i int) uint64 { return uint64(r.num(i)) }

func (r row) bool(i int) bool { return r.num(i) != 0 }

// time is a DATETIME in UTC; zero for NULL.
func (r row) time(i int) (time.Time, error) {
	if r.null(i) {
		return time.Time{}, nil
	}
	t, err := time.Parse("2006-01-02 15:04:05.999999", string(r[i].AsString()))
	if err != nil {
		return time.Time{}, fmt.Errorf("read time: %w", err)
	}
	return t, nil
}

// An answer is what a statement came back with. Affected are the rows that it found, changed or not.
type answer struct {
	rows     []row
	affected int
}

// A batch is statements that go to the server together, in as few round trips as packets allow. The first error ends it.
type batch struct {
	names  names
	buf    []byte
	starts []int
	on     []func(answer) error
}

func (s *relaySession) batch() *batch { return &batch{names: s.names} }

// queue adds a statement. {checkpoint}, {parked} and {request} stand for the tables, and each ? for an argument, so that neither
// stands in a literal. The function, if not nil, gets the answer.
func (b *batch) queue(on func(answer) error, sql string, args ...any) {
	if len(b.buf) > 0 {
		b.buf = append(b.buf, separator...)
	}
	b.starts = append(b.starts, len(b.buf))
	b.buf = b.expand(b.buf, sql, args)
	b.on = append(b.on, on)
}

// size is how many bytes are queued.
func (b *batch) size() int { return len(b.buf) }

// exec adds a statement without an answer.
func (b *batch) exec(sql string, args ...any) { b.queue(nil, sql, args...) }

// each adds a query, with a function for each row of its answer.
func (b *batch) each(on func(row) error, sql string, args ...any) {
	b.queue(func(a answer) error {
		for _, r := range a.rows {
			if err := on(r); err != nil {
				return err
			}
		}
		return nil
	}, sql, args...)
}

// expand writes a statement with its tables and arguments.
func (b *batch) expand(to []byte, sql string, args []any) []byte {
	for len(sql) > 0 {
		i := strings.IndexAny(sql, "?{")
		if i < 0 {
			return append(to, sql...)
		}
		to = append(to, sql[:i]...)
		if sql[i] == '?' {
			to = appendLiteral(to, args[0])
			args, sql = args[1:], sql[i+1:]
			continue
		}
		end := strings.IndexByte(sql[i:], '}') + i
		switch sql[i+1 : end] {
		case "checkpoint":
			to = append(to, b.names.checkpoint...)
		case "parked":
			to = append(to, b.names.parked...)
		case "request":
			to = append(to, b.names.request...)
		}
		sql = sql[end+1:]
	}
	return to
}

// appendLiteral writes a value as SQL. The session has no NO_BACKSLASH_ESCAPES and speaks utf8mb4, so that quote and backslash are the
// bytes that are special within quotes.
func appendLiteral(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "NULL"...)
	case raw:
		return append(b, v...)
	case string:
		if !utf8.ValidString(v) {
			v = strings.ToValidUTF8(v, "\uFFFD")
		}
		return appendQuoted(b, v)
	case bin:
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
	case list:
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
			v = lastDatetime
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

// orNull is NULL for an empty text.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// send runs a batch and empties it. After an error, what the batch has done is as the transaction has it.
func (s *relaySession) send(ctx context.Context, b *batch) error {
	starts, on, buf := append(b.starts, len(b.buf)+len(separator)), b.on, b.buf
	*b = batch{names: b.names}
	for first := 0; first < len(on); {
		last := first + 1
		for last < len(on) && starts[last+1]-starts[first] <= packetBytes {
			last++
		}
		text := buf[starts[first] : starts[last]-len(separator)]
		if len(text) > s.maxPacket-packetSlack {
			return fmt.Errorf("%w: a statement of %d bytes does not fit into max_allowed_packet (%d): raise it", source.ErrStop,
				len(text), s.maxPacket)
		}
		if err := s.packet(ctx, string(text), on[first:last]); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// packet sends statements together, and hands out their answers.
func (s *relaySession) packet(ctx context.Context, text string, on []func(answer) error) error {
	var refused error // by a function
	n := 0
	err := s.sess.guard(ctx, func() error {
		var failed error
		_, err := s.sess.conn.ExecuteMultiple(text, func(r *mysql.Result, err error) {
			if err != nil {
				failed = err
				return
			}
			if n < len(on) && on[n] != nil && refused == nil {
				refused = on[n](answerOf(r))
			}
			n++
		})
		if failed != nil {
			return failed
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case n != len(on): // the session's state is not known any more
		return errors.Join(fmt.Errorf("the server answered %d of %d statements", n, len(on)), s.sess.close(ctx))
	}
	return nil
}

func answerOf(r *mysql.Result) answer {
	a := answer{affected: int(r.AffectedRows)}
	if r.HasResultset() {
		a.rows = make([]row, len(r.Values))
		for i := range r.Values {
			a.rows[i] = r.Values[i]
		}
	}
	return a
}

// multipleStatements lets the session send several statements in one packet. It is asked for here, and not of every
// connection, because nothing but a batch should.
func (s *relaySession) multipleStatements(ctx context.Context) error {
	return s.sess.guard(ctx, func() error {
		c := s.sess.conn
		c.ResetSequence()
		// 4 bytes for the header, COM_SET_OPTION, MYSQL_OPTION_MULTI_STATEMENTS_ON.
		if err := c.WritePacket([]byte{0, 0, 0, 0, mysql.COM_SET_OPTION, 0, 0}); err != nil {
			return err
		}
		data, err := c.ReadPacket()
		switch {
		case err != nil:
			return err
		case len(data) > 0 && data[0] == mysql.ERR_HEADER:
			return c.HandleErrorPacket(data)
		case len(data) == 0 || data[0] != mysql.EOF_HEADER && data[0] != mysql.OK_HEADER:
			return mysql.ErrMalformPacket
		}
		return nil
	})
}
