package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A Kind is what is known about a column's type: how its form in the log becomes the text that the server would have sent.
type Kind uint8

// Kinds of columns.
const (
	KindOther  Kind = iota // cannot be read; Column.Why says why
	KindText               // in utf8mb4, utf8mb3 or ascii: bytes as they are
	KindLatin1             // text in latin1
	KindBytes              // BLOB, VARBINARY and BINARY but for BINARY(16): bytes as they are
	KindJSON               // MySQL's binary form
	KindUUID               // BINARY(16)
	KindInt
	KindFloat
	KindDouble
	KindDecimal
	KindEnum
	KindSet
	KindBit
	KindYear
	KindDate
	KindTime
	KindDatetime
	KindTimestamp
)

// Fixed tells that values of the kind are small whatever is in them; they do not count for max_message.
func (k Kind) Fixed() bool { return k >= KindUUID }

// binary tells that values of the kind are bytes.
func (k Kind) binary() bool { return k == KindBytes || k == KindUUID || k == KindBit }

// Binary implements columns.Column.
func (c *Column) Binary() bool { return c.Kind.binary() }

// Key implements columns.Column: a key is text.
func (c *Column) Key(*arena.Arena, *columns.Value) ([]byte, bool, error) { return nil, false, nil }

// Payload implements columns.Column: BINARY(16) and BIT, which have texts, are bytes in a payload.
func (c *Column) Payload(a *arena.Arena, v *columns.Value) ([]byte, bool, error) {
	if c.Kind != KindUUID && c.Kind != KindBit {
		return nil, false, nil
	}
	b := a.Alloc(max(c.Bytes, len(v.Data)))
	clear(b[copy(b, v.Data):]) // the log leaves trailing zeros out
	return b, true, nil
}

// Type says what the text of a column means. BINARY(16) and BIT have texts, a UUID and a number.
func (c *Column) Type() outbox.FieldType {
	switch c.Kind {
	case KindInt:
		return outbox.FieldBare
	case KindFloat:
		return outbox.FieldFloat32
	case KindDouble:
		return outbox.FieldFloat64
	case KindBytes:
		return outbox.FieldBytes
	case KindDate:
		return outbox.FieldDate
	case KindTime:
		return outbox.FieldTimeMicros
	case KindDatetime:
		if c.Digits <= 3 {
			return outbox.FieldDatetimeMillis
		}
		return outbox.FieldDatetimeMicros
	case KindTimestamp:
		return outbox.ZonedType(max(c.Digits, 0)) // of a table of long ago it is not known
	}
	return outbox.FieldText
}

// Tags of a value, beside columns.Null and columns.Dropped.
const (
	tagText   = 't' // the text that a query returns; for binary types their bytes
	TagLog    = 'b' // the form in the log, without its length
	TagAbsent = 'a' // the log holds the row without this column (binlog_row_image)
)

// Size implements columns.Column.
func (c *Column) Size(v *columns.Value) int {
	if c.Kind.Fixed() {
		return 0
	}
	return len(v.Data)
}

var errAbsent = errors.New("the log holds the row without it: SET GLOBAL binlog_row_image = 'FULL', and let applications connect anew")

// Raw returns the text of a value where it stands in the value's own bytes; ok is false if it has to be made.
func (c *Column) Raw(v *columns.Value) (b []byte, ok bool, err error) {
	switch {
	case v.Tag == TagAbsent:
		return nil, false, errAbsent
	case c.Kind == KindOther:
		return nil, false, errors.New(c.Why)
	case c.Kind == KindText, c.Kind == KindBytes && (v.Tag == tagText || len(v.Data) >= c.Bytes):
		return v.Data, true, nil
	case v.Tag == tagText && (c.Kind == KindInt || c.Kind == KindDecimal):
		return trimZeros(v.Data), true, nil
	case v.Tag == tagText && c.Kind != KindUUID && c.Kind != KindBit && c.Kind != KindFloat && c.Kind != KindDouble:
		return v.Data, true, nil
	}
	return nil, false, nil
}

// trimZeros takes away the zeros that a query, but not the log, has before numbers of a column with ZEROFILL.
func trimZeros(b []byte) []byte {
	for len(b) > 1 && b[0] == '0' && b[1] != '.' {
		b = b[1:]
	}
	return b
}

// AppendText implements columns.Column.
func (c *Column) AppendText(dst []byte, v *columns.Value) ([]byte, error) {
	b := v.Data
	switch c.Kind {
	case KindLatin1:
		return appendLatin1(dst, b), nil
	case KindBytes: // BINARY: the log leaves trailing zeros out
		return append(append(dst, b...), make([]byte, c.Bytes-len(b))...), nil
	case KindJSON:
		return binlog.AppendJSON(dst, b)
	case KindUUID:
		return binlog.AppendUUID(dst, b)
	case KindBit:
		return appendBit(dst, b)
	case KindEnum, KindSet:
		return appendLabels(dst, c, b)
	case KindDecimal:
		return binlog.AppendDecimal(dst, b, c.Digits, c.Scale)
	case KindFloat, KindDouble:
		return c.appendFloat(dst, v)
	case KindInt, KindYear:
		return appendNumber(dst, c, b)
	}
	return appendTimes(dst, c, b)
}

// Integer implements columns.Column.
func (c *Column) Integer(v *columns.Value) (n int64, ok bool, err error) {
	if v.Tag != TagLog || c.Kind != KindInt || len(v.Data) == 0 {
		return 0, false, nil
	}
	read, err := binlog.LittleEndian(v.Data)
	if c.Unsigned || err != nil {
		return int64(min(read, math.MaxInt64)), true, err
	}
	return binlog.Signed(read, len(v.Data)), true, nil
}

// Time reads a value as a time. DATETIME, which has no zone, is UTC; a whole number counts s, ms, µs or ns since 1970, told by
// its size. A zero date is the zero time.
func (c *Column) Time(v *columns.Value) (time.Time, error) {
	return columns.Time(c, v, c.Kind == KindInt, ParseTime)
}

func appendNumber(dst []byte, c *Column, b []byte) ([]byte, error) {
	switch {
	case c.Kind == KindYear && len(b) == 1 && b[0] == 0:
		return append(dst, "0000"...), nil
	case c.Kind == KindYear && len(b) == 1:
		return strconv.AppendInt(dst, 1900+int64(b[0]), 10), nil
	case c.Kind != KindInt:
		return dst, binlog.ErrLength
	}
	n, err := binlog.LittleEndian(b)
	if err != nil {
		return dst, err
	}
	if c.Unsigned {
		return strconv.AppendUint(dst, n, 10), nil
	}
	return strconv.AppendInt(dst, binlog.Signed(n, len(b)), 10), nil
}

// appendFloat appends the text of a FLOAT or DOUBLE: the fewest digits that mean the number. Both forms are read as numbers first,
// because the server's own text of a FLOAT has but six digits, and that of a column with decimals shows zeros that the log does
// not know of.
func (c *Column) appendFloat(dst []byte, v *columns.Value) ([]byte, error) {
	bits := 64
	if c.Kind == KindFloat {
		bits = 32
	}
	switch {
	case v.Tag == tagText:
		f, err := strconv.ParseFloat(string(v.Data), 64)
		if err != nil {
			return dst, errors.New("it is not a number")
		}
		return binlog.AppendFloat(dst, f, bits), nil
	case len(v.Data) != bits/8:
		return dst, binlog.ErrLength
	case bits == 32:
		return binlog.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v.Data))), bits), nil
	}
	return binlog.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v.Data)), bits), nil
}

func appendBit(dst, b []byte) ([]byte, error) {
	if len(b) == 0 || len(b) > 8 {
		return dst, binlog.ErrLength
	}
	return strconv.AppendUint(dst, binlog.BigEndian(b), 10), nil
}

// appendLabels appends the text of an ENUM (an index, 0 for the empty text of an invalid value) or a SET (a bit a label).
func appendLabels(dst []byte, c *Column, b []byte) ([]byte, error) {
	n, err := binlog.LittleEndian(b)
	if err != nil {
		return dst, err
	}
	if c.Kind == KindEnum {
		switch {
		case n == 0:
			return dst, nil
		case n > uint64(len(c.Labels)):
			return dst, fmt.Errorf("its label %d is not known", n)
		}
		return append(dst, c.Labels[n-1]...), nil
	}
	first := true
	for i := 0; n != 0; i, n = i+1, n>>1 {
		if n&1 == 0 {
			continue
		}
		if i >= len(c.Labels) {
			return dst, fmt.Errorf("its label %d is not known", i+1)
		}
		if !first {
			dst = append(dst, ',')
		}
		dst, first = append(dst, c.Labels[i]...), false
	}
	return dst, nil
}

// appendLatin1 appends what the server calls latin1, which is Windows-1252, in UTF-8.
func appendLatin1(dst, b []byte) []byte {
	// 0x80 to 0x9f. What has no character in Windows-1252 is a control character.
	const high = "\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f" +
		"\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178"
	for _, c := range b {
		switch {
		case c < 0x80:
			dst = append(dst, c)
		case c < 0xa0:
			n := 0
			for _, r := range high {
				if n == int(c-0x80) {
					dst = utf8.AppendRune(dst, r)
					break
				}
				n++
			}
		default:
			dst = utf8.AppendRune(dst, rune(c))
		}
	}
	return dst
}
