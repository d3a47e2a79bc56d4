package catalog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/arena"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// The tag of a value is that of the protocol: 'n' NULL, 't' text, 'b' binary, 'u' unchanged (never in an insert); 0 = left out.

// A Kind is what is known about a column's type: how its binary form becomes the text that the server would have sent.
type Kind uint8

// Kinds of types.
const (
	KindOther Kind = iota // any other type: only its text form can be read
	KindText              // text, varchar, json, name, enums, citext: bytes as they are
	KindBpchar
	KindBytea
	KindJSONB
	KindUUID
	KindBool
	KindInt2
	KindInt4
	KindInt8
	KindOID
	kindDate
	KindTimestamp
	KindTimestamptz
	// Only the text form of these can be read, too.
	kindTime
	kindFloat4
	kindFloat8
)

// BuiltinKind is the kind of a type whose oid is the same in every database.
func BuiltinKind(oid uint32) (Kind, bool) {
	switch oid {
	case 19, 25, 114, 1043: // name, text, json, varchar
		return KindText, true
	case 1042:
		return KindBpchar, true
	case 17:
		return KindBytea, true
	case 3802:
		return KindJSONB, true
	case 2950:
		return KindUUID, true
	case 16:
		return KindBool, true
	case 21:
		return KindInt2, true
	case 23:
		return KindInt4, true
	case 20:
		return KindInt8, true
	case 26:
		return KindOID, true
	case 1082:
		return kindDate, true
	case 1114:
		return KindTimestamp, true
	case 1184:
		return KindTimestamptz, true
	case 1083:
		return kindTime, true
	case 700:
		return kindFloat4, true
	case 701:
		return kindFloat8, true
	}
	return KindOther, false
}

// fixed reports whether all values of the kind are small. Such values do not count for max_message.
func (k Kind) fixed() bool { return k >= KindUUID }

// TextOnly reports whether no binary form of the kind is known.
func (k Kind) TextOnly() bool { return k == KindOther || k >= kindTime }

// fieldType is what the text of a column means.
func (k Kind) fieldType(modifier int) outbox.FieldType {
	const most = 6 // digits behind the second
	if modifier < 0 || modifier > most {
		modifier = most
	}
	switch {
	case k >= KindBool && k <= KindOID:
		return outbox.FieldBare
	case k == kindFloat4:
		return outbox.FieldFloat32
	case k == kindFloat8:
		return outbox.FieldFloat64
	case k == KindBytea:
		return outbox.FieldHex
	case k == kindDate:
		return outbox.FieldDate
	case k == kindTime && modifier <= 3:
		return outbox.FieldTimeMillis
	case k == kindTime:
		return outbox.FieldTimeMicros
	case k == KindTimestamp && modifier <= 3:
		return outbox.FieldDatetimeMillis
	case k == KindTimestamp:
		return outbox.FieldDatetimeMicros
	case k == KindTimestamptz:
		return outbox.ZonedType(modifier)
	}
	return outbox.FieldText
}

// Size implements columns.Column.
func (c *Column) Size(v *columns.Value) int { return SizeOf(c.Kind, v.Tag, len(v.Data)) }

// SizeOf is how many bytes a value counts for against max_message if n bytes of it were sent. Values of fixed length count for none.
func SizeOf(k Kind, tag byte, n int) int {
	switch {
	case k.fixed() || n == 0:
		return 0
	case k == KindBytea && tag == 't':
		return max(n-2, 0) / 2
	case k == KindJSONB && tag == 'b':
		return n - 1
	}
	return n
}

var (
	errNotText   = errors.New("its type has no binary form that is known")
	errTruncated = errors.New("value has a wrong length")
)

// Raw returns the text of a value where it stands in the value's own bytes; ok is false if it has to be made.
func (c *Column) Raw(v *columns.Value) (b []byte, ok bool, err error) {
	if v.Tag == 't' {
		switch c.Kind {
		case KindBool:
			return nil, false, nil
		case KindBpchar:
			return trimSpaces(v.Data), true, nil
		}
		return v.Data, true, nil
	}
	if v.Tag != 'b' {
		return nil, false, fmt.Errorf("column has the unknown tag %q", v.Tag)
	}
	switch c.Kind {
	case KindOther, kindTime, kindFloat4, kindFloat8:
		return nil, false, errNotText
	case KindText:
		return v.Data, true, nil
	case KindBpchar:
		return trimSpaces(v.Data), true, nil
	case KindJSONB:
		b, err := jsonbText(v.Data)
		return b, true, err
	}
	return nil, false, nil
}

// AppendText implements columns.Column.
func (c *Column) AppendText(dst []byte, v *columns.Value) ([]byte, error) {
	if v.Tag == 't' { // KindBool
		return strconv.AppendBool(dst, len(v.Data) > 0 && v.Data[0] == 't'), nil
	}
	return appendBinary(dst, c.Kind, v.Data)
}

// appendBinary appends the text of a binary value of a kind whose text has to be made.
func appendBinary(dst []byte, k Kind, b []byte) ([]byte, error) {
	switch {
	case k == KindUUID && len(b) == 16:
		return appendUUID(dst, b), nil
	case k == KindBytea:
		return hex.AppendEncode(append(dst, `\x`...), b), nil
	case k == KindBool && len(b) == 1:
		return strconv.AppendBool(dst, b[0] != 0), nil
	case k == KindInt2 && len(b) == 2, k == KindInt4 && len(b) == 4, k == KindInt8 && len(b) == 8:
		return strconv.AppendInt(dst, signed(b), 10), nil
	case k == KindOID && len(b) == 4:
		return strconv.AppendUint(dst, uint64(binary.BigEndian.Uint32(b)), 10), nil
	case k == kindDate && len(b) == 4:
		return pgrepl.AppendDate(dst, signed(b)), nil
	case (k == KindTimestamp || k == KindTimestamptz) && len(b) == 8:
		return pgrepl.AppendTimestamp(dst, signed(b), k == KindTimestamptz), nil
	}
	return dst, errTruncated
}

// Integer implements columns.Column.
func (c *Column) Integer(v *columns.Value) (n int64, ok bool, err error) {
	k := c.Kind
	if v.Tag == 'b' && (k == KindInt2 && len(v.Data) == 2 || k == KindInt4 && len(v.Data) == 4 || k == KindInt8 && len(v.Data) == 8) {
		return signed(v.Data), true, nil
	}
	return 0, false, nil
}

// Time reads a value as a time. A timestamp without time zone is UTC; a whole number counts s, ms, µs or ns since
// 1970, told by its size. Infinity is the year 9999, -infinity the zero time.
func (c *Column) Time(v *columns.Value) (time.Time, error) {
	k := c.Kind
	if v.Tag == 'b' && (k == KindTimestamp || k == KindTimestamptz) && len(v.Data) == 8 {
		return pgrepl.TimeOf(signed(v.Data)), nil
	}
	return columns.Time(c, v, k == KindInt4 || k == KindInt8, pgrepl.ParseTime)
}

// jsonbText strips the version byte.
func jsonbText(b []byte) ([]byte, error) {
	if len(b) < 1 || b[0] != 1 {
		return nil, errors.New("jsonb has an unknown version")
	}
	return b[1:], nil
}

func trimSpaces(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

func signed(b []byte) int64 {
	switch len(b) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	}
	return int64(binary.BigEndian.Uint64(b))
}

// appendUUID appends the canonical form, 8-4-4-4-12.
func appendUUID(dst, b []byte) []byte {
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	for at, i := 8, 4; i < 10; at, i = at+5, i+2 {
		text[at] = '-'
		hex.Encode(text[at+1:], b[i:i+2])
	}
	text[23] = '-'
	hex.Encode(text[24:], b[10:16])
	return append(dst, text[:]...)
}

// Binary implements columns.Column.
func (c *Column) Binary() bool { return c.Kind == KindBytea }

// Type implements columns.Column.
func (c *Column) Type() outbox.FieldType { return c.typ }

// Key implements columns.Column: of a bytea, it returns the bytes.
func (c *Column) Key(a *arena.Arena, v *columns.Value) ([]byte, bool, error) {
	switch {
	case c.Kind != KindBytea || v.Tag != 'b' && v.Tag != 't':
		return nil, false, nil
	case v.Tag == 'b' && v.Owned:
		return v.Data, true, nil
	}
	b, err := byteaBytes(a.Alloc(c.Size(v))[:0], v)
	return b, true, err
}

// Payload implements columns.Column: of a bytea, it returns the bytes, and of a char(n) the text with its trailing spaces.
func (c *Column) Payload(a *arena.Arena, v *columns.Value) ([]byte, bool, error) {
	if c.Kind == KindBpchar && (v.Tag == 'b' || v.Tag == 't') {
		return a.CopyOf(v.Data), true, nil
	}
	return c.Key(a, v)
}

// byteaBytes returns the bytes of a bytea: as sent, or decoded into memory of dst, which has room for n/2.
func byteaBytes(dst []byte, v *columns.Value) ([]byte, error) {
	if v.Tag == 'b' {
		return append(dst, v.Data...), nil
	}
	if len(v.Data) < 2 || v.Data[0] != '\\' || v.Data[1] != 'x' {
		return dst, errors.New(`bytea is not in hex form: bytea_output must be hex`)
	}
	dst, err := hex.AppendDecode(dst, v.Data[2:])
	if err != nil {
		return dst, errors.New("bytea is not in hex form")
	}
	return dst, nil
}
