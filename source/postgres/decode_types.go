package postgres

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

// A kind is what is known about a column's type: how its binary form becomes the text that the server would have sent.
type kind uint8

const (
	kindOther kind = iota // any other type: only its text form can be read
	kindText              // text, varchar, json, name, enums, citext: bytes as they are
	kindBpchar
	kindBytea
	kindJSONB
	kindUUID
	kindBool
	kindInt2
	kindInt4
	kindInt8
	kindOID
	kindDate
	kindTimestamp
	kindTimestamptz
	// Of these the text form alone can be read, too.
	kindTime
	kindFloat4
	kindFloat8
)

// builtinKind is the kind of a type whose oid is the same in every database.
func builtinKind(oid uint32) (kind, bool) {
	switch oid {
	case 19, 25, 114, 1043: // name, text, json, varchar
		return kindText, true
	case 1042:
		return kindBpchar, true
	case 17:
		return kindBytea, true
	case 3802:
		return kindJSONB, true
	case 2950:
		return kindUUID, true
	case 16:
		return kindBool, true
	case 21:
		return kindInt2, true
	case 23:
		return kindInt4, true
	case 20:
		return kindInt8, true
	case 26:
		return kindOID, true
	case 1082:
		return kindDate, true
	case 1114:
		return kindTimestamp, true
	case 1184:
		return kindTimestamptz, true
	case 1083:
		return kindTime, true
	case 700:
		return kindFloat4, true
	case 701:
		return kindFloat8, true
	}
	return kindOther, false
}

// fixed tells that values of the kind are small whatever is in them; they do not count for max_message.
func (k kind) fixed() bool { return k >= kindUUID }

// textOnly tells that no binary form of the kind is known.
func (k kind) textOnly() bool { return k == kindOther || k >= kindTime }

// fieldType is what the text of a column means.
func (k kind) fieldType(modifier int) outbox.FieldType {
	const most = 6 // digits behind the second
	if modifier < 0 || modifier > most {
		modifier = most
	}
	switch {
	case k >= kindBool && k <= kindOID:
		return outbox.FieldBare
	case k == kindFloat4:
		return outbox.FieldFloat32
	case k == kindFloat8:
		return outbox.FieldFloat64
	case k == kindBytea:
		return outbox.FieldHex
	case k == kindDate:
		return outbox.FieldDate
	case k == kindTime && modifier <= 3:
		return outbox.FieldTimeMillis
	case k == kindTime:
		return outbox.FieldTimeMicros
	case k == kindTimestamp && modifier <= 3:
		return outbox.FieldDatetimeMillis
	case k == kindTimestamp:
		return outbox.FieldDatetimeMicros
	case k == kindTimestamptz:
		return outbox.ZonedType(modifier)
	}
	return outbox.FieldText
}

// A value's Tag is that of the protocol: 'n' NULL, 't' text, 'b' binary, 'u' unchanged (never in an insert); 0 = left out.
type value = columns.Value

// Size implements columns.Column.
func (c *column) Size(v *value) int { return sizeOf(c.kind, v.Tag, len(v.Data)) }

func sizeOf(k kind, tag byte, n int) int {
	switch {
	case k.fixed() || n == 0:
		return 0
	case k == kindBytea && tag == 't':
		return max(n-2, 0) / 2
	case k == kindJSONB && tag == 'b':
		return n - 1
	}
	return n
}

var (
	errNotText   = errors.New("its type has no binary form that is known")
	errTruncated = errors.New("value has a wrong length")
)

// Raw returns the text of a value where it stands in the value's own bytes; ok is false where it has to be made.
func (c *column) Raw(v *value) (b []byte, ok bool, err error) {
	if v.Tag == 't' {
		switch c.kind {
		case kindBool:
			return nil, false, nil
		case kindBpchar:
			return trimSpaces(v.Data), true, nil
		}
		return v.Data, true, nil
	}
	if v.Tag != 'b' {
		return nil, false, fmt.Errorf("column has the unknown tag %q", v.Tag)
	}
	switch c.kind {
	case kindOther, kindTime, kindFloat4, kindFloat8:
		return nil, false, errNotText
	case kindText:
		return v.Data, true, nil
	case kindBpchar:
		return trimSpaces(v.Data), true, nil
	case kindJSONB:
		b, err := jsonbText(v.Data)
		return b, true, err
	}
	return nil, false, nil
}

// AppendText appends the text of a value, the same for both forms of it.
func (c *column) AppendText(dst []byte, v *value) ([]byte, error) {
	b, ok, err := c.Raw(v)
	if err != nil {
		return dst, err
	}
	if ok {
		return append(dst, b...), nil
	}
	if v.Tag == 't' { // kindBool
		return strconv.AppendBool(dst, len(v.Data) > 0 && v.Data[0] == 't'), nil
	}
	return appendBinary(dst, c.kind, v.Data)
}

// appendBinary appends the text of a binary value of a kind whose text has to be made.
func appendBinary(dst []byte, k kind, b []byte) ([]byte, error) {
	switch {
	case k == kindUUID && len(b) == 16:
		return appendUUID(dst, b), nil
	case k == kindBytea:
		return hex.AppendEncode(append(dst, `\x`...), b), nil
	case k == kindBool && len(b) == 1:
		return strconv.AppendBool(dst, b[0] != 0), nil
	case k == kindInt2 && len(b) == 2, k == kindInt4 && len(b) == 4, k == kindInt8 && len(b) == 8:
		return strconv.AppendInt(dst, signed(b), 10), nil
	case k == kindOID && len(b) == 4:
		return strconv.AppendUint(dst, uint64(binary.BigEndian.Uint32(b)), 10), nil
	case k == kindDate && len(b) == 4:
		return pgrepl.AppendDate(dst, signed(b)), nil
	case (k == kindTimestamp || k == kindTimestamptz) && len(b) == 8:
		return pgrepl.AppendTimestamp(dst, signed(b), k == kindTimestamptz), nil
	}
	return dst, errTruncated
}

// Integer reads a value as a whole number.
func (c *column) Integer(v *value) (int64, error) {
	k := c.kind
	if v.Tag == 'b' {
		switch {
		case k == kindInt2 && len(v.Data) == 2, k == kindInt4 && len(v.Data) == 4, k == kindInt8 && len(v.Data) == 8:
			return signed(v.Data), nil
		}
	}
	b, err := c.AppendText(nil, v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		// The error of ParseInt quotes the value, which may be anything.
		return 0, errors.New("it is not a whole number")
	}
	return n, nil
}

// Time reads a value as a time. A timestamp without time zone is UTC; a whole number counts s, ms, µs or ns since
// 1970, told by its size. Infinity is the year 9999, -infinity the zero time.
func (c *column) Time(v *value) (time.Time, error) {
	k := c.kind
	switch {
	case v.Tag == 'b' && (k == kindTimestamp || k == kindTimestamptz) && len(v.Data) == 8:
		return pgrepl.TimeOf(signed(v.Data)), nil
	case k == kindInt4 || k == kindInt8:
		n, err := c.Integer(v)
		return columns.EpochTime(n), err
	}
	b, err := c.AppendText(nil, v)
	if err != nil {
		return time.Time{}, err
	}
	return pgrepl.ParseTime(string(b))
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
	dst = hex.AppendEncode(dst, b[:4])
	for i := 4; i < 10; i += 2 {
		dst = append(dst, '-')
		dst = hex.AppendEncode(dst, b[i:i+2])
	}
	dst = append(dst, '-')
	return hex.AppendEncode(dst, b[10:16])
}

// Binary implements columns.Column.
func (c *column) Binary() bool { return c.kind == kindBytea }

// Type implements columns.Column.
func (c *column) Type() outbox.FieldType { return c.typ }

// Key implements columns.Column: of a bytea, it returns the bytes.
func (c *column) Key(a *arena.Arena, v *value) ([]byte, bool, error) {
	switch {
	case c.kind != kindBytea || v.Tag != 'b' && v.Tag != 't':
		return nil, false, nil
	case v.Tag == 'b' && v.Owned:
		return v.Data, true, nil
	}
	b, err := byteaBytes(a.Alloc(c.Size(v))[:0], v)
	return b, true, err
}

// Payload implements columns.Column: of a bytea, it returns the bytes, and of a char(n) the text with its trailing spaces.
func (c *column) Payload(a *arena.Arena, v *value) ([]byte, bool, error) {
	if c.kind == kindBpchar && (v.Tag == 'b' || v.Tag == 't') {
		return a.CopyOf(v.Data), true, nil
	}
	return c.Key(a, v)
}

// byteaBytes returns the bytes of a bytea: as sent, or decoded into memory of dst, which has room for n/2.
func byteaBytes(dst []byte, v *value) ([]byte, error) {
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
