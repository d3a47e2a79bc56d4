package document

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxDepth is how deep documents may be nested; the server allows 100.
const maxDepth = 200

var errDepth = errors.New("it is nested too deep")

// JSON is a document as relaxed Extended JSON v2.
func JSON(doc []byte) ([]byte, error) { return appendJSONDocument(nil, doc, 0) }

// JSON is the value as relaxed Extended JSON v2.
func (v Value) JSON() ([]byte, error) { return appendJSON(nil, v, 0) }

// appendJSON appends a value as relaxed Extended JSON v2, the form that MongoDB's own tools read and write: what JSON can say is
// plain JSON, other types are objects such as {"$oid": …}.
func appendJSON(dst []byte, v Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errDepth
	}
	switch v.Type {
	case bson.TypeString:
		return appendJSONText(dst, v.Text()), nil
	case bson.TypeEmbeddedDocument:
		return appendJSONDocument(dst, v.Data, depth)
	case bson.TypeArray:
		return appendJSONArray(dst, v.Data, depth)
	case bson.TypeInt32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
	case bson.TypeInt64:
		return strconv.AppendInt(dst, v.Int64(), 10), nil
	case bson.TypeDouble:
		return appendJSONDouble(dst, math.Float64frombits(uint64(v.Int64()))), nil
	case bson.TypeBoolean:
		return strconv.AppendBool(dst, v.Data[0] != 0), nil
	case bson.TypeNull:
		return append(dst, "null"...), nil
	case bson.TypeObjectID:
		return append(hex.AppendEncode(append(dst, `{"$oid":"`...), v.Data), `"}`...), nil
	case bson.TypeDateTime:
		return appendJSONDate(dst, v.Int64()), nil
	}
	return appendJSONRare(dst, v, depth)
}

// appendJSONRare is appendJSON for the types that JSON has no form of its own for.
func appendJSONRare(dst []byte, v Value, depth int) ([]byte, error) {
	switch v.Type {
	case bson.TypeBinary:
		subtype, b := v.Binary()
		dst = base64.StdEncoding.AppendEncode(append(dst, `{"$binary":{"base64":"`...), b)
		return append(hex.AppendEncode(append(dst, `","subType":"`...), []byte{subtype}), `"}}`...), nil
	case bson.TypeTimestamp:
		t := v.Timestamp()
		return fmt.Appendf(dst, `{"$timestamp":{"t":%d,"i":%d}}`, t.T, t.I), nil
	case bson.TypeDecimal128:
		d, _ := v.RawValue().Decimal128OK()
		return append(append(append(dst, `{"$numberDecimal":"`...), d.String()...), `"}`...), nil
	case bson.TypeRegex:
		pattern, flags, ok := v.RawValue().RegexOK()
		if !ok {
			return dst, errBSON
		}
		sorted := []byte(flags)
		slices.Sort(sorted)
		dst = appendJSONText(append(dst, `{"$regularExpression":{"pattern":`...), []byte(pattern))
		return append(appendJSONText(append(dst, `,"options":`...), sorted), "}}"...), nil
	case bson.TypeJavaScript:
		return append(appendJSONText(append(dst, `{"$code":`...), v.Text()), '}'), nil
	case bson.TypeSymbol:
		return append(appendJSONText(append(dst, `{"$symbol":`...), v.Text()), '}'), nil
	case bson.TypeCodeWithScope:
		code, scope, ok := v.RawValue().CodeWithScopeOK()
		if !ok {
			return dst, errBSON
		}
		dst = append(appendJSONText(append(dst, `{"$code":`...), []byte(code)), `,"$scope":`...)
		dst, err := appendJSONDocument(dst, scope, depth+1)
		return append(dst, '}'), err
	case bson.TypeDBPointer:
		ns, id, ok := v.RawValue().DBPointerOK()
		if !ok {
			return dst, errBSON
		}
		dst = appendJSONText(append(dst, `{"$dbPointer":{"$ref":`...), []byte(ns))
		return append(append(append(dst, `,"$id":{"$oid":"`...), id.Hex()...), `"}}}`...), nil
	case bson.TypeUndefined:
		return append(dst, `{"$undefined":true}`...), nil
	case bson.TypeMinKey:
		return append(dst, `{"$minKey":1}`...), nil
	case bson.TypeMaxKey:
		return append(dst, `{"$maxKey":1}`...), nil
	}
	return dst, errBSON
}

func appendJSONDocument(dst, doc []byte, depth int) ([]byte, error) {
	e := ElementsOf(doc)
	dst = append(dst, '{')
	var err error
	for first := true; ; first = false {
		key, v, ok := e.Next()
		if !ok {
			return append(dst, '}'), e.Err
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = append(appendJSONText(dst, key), ':')
		if dst, err = appendJSON(dst, v, depth+1); err != nil {
			return dst, err
		}
	}
}

func appendJSONArray(dst, doc []byte, depth int) ([]byte, error) {
	e := ElementsOf(doc)
	dst = append(dst, '[')
	var err error
	for first := true; ; first = false {
		_, v, ok := e.Next()
		if !ok {
			return append(dst, ']'), e.Err
		}
		if !first {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, v, depth+1); err != nil {
			return dst, err
		}
	}
}

// appendJSONDouble writes the shortest text that reads back as the same number, with a point or an exponent so that it stays
// a double.
func appendJSONDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `{"$numberDouble":"NaN"}`...)
	case math.IsInf(f, 1):
		return append(dst, `{"$numberDouble":"Infinity"}`...)
	case math.IsInf(f, -1):
		return append(dst, `{"$numberDouble":"-Infinity"}`...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'G', -1, 64)
	if !slices.ContainsFunc(dst[start:], func(r byte) bool { return r == '.' || r == 'E' }) {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendJSONDate writes years 1970 to 9999 as ISO 8601, others as milliseconds.
func appendJSONDate(dst []byte, ms int64) []byte {
	const end = 253402300800000 // year 10000
	if ms < 0 || ms >= end {
		return append(strconv.AppendInt(append(dst, `{"$date":{"$numberLong":"`...), ms, 10), `"}}`...)
	}
	return append(appendDate(append(dst, `{"$date":"`...), ms), `"}`...)
}

// appendDate writes a date as ISO 8601 in UTC, with milliseconds where it has some.
func appendDate(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.999Z")
}

// appendJSONText writes s as a JSON string. Only what must be is escaped; what is no UTF-8 becomes U+FFFD, since JSON cannot
// hold it.
func appendJSONText(dst, s []byte) []byte {
	if !utf8.Valid(s) {
		var mended []byte
		for _, r := range string(s) {
			mended = utf8.AppendRune(mended, r)
		}
		s = mended
	}
	dst = append(dst, '"')
	for {
		n := plainJSON(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendJSONEscape(dst, s[n])
		s = s[n+1:]
	}
}

func appendJSONEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\t':
		return append(dst, '\\', 't')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// plainJSON is how many bytes at the beginning of s a JSON string has as they are. Payloads are little else, so it looks at eight at
// a time.
func plainJSON(s []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		// A byte that is 0 gets its top bit when 1 is taken from it, and a control character when a space is. Both borrow from the
		// byte above, which may then look like one, too; but the lowest one that is found is one.
		w := binary.LittleEndian.Uint64(s[i:])
		found := ((w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) &^ w & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
