package binlog

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Types in MySQL's binary JSON.
const (
	jsonSmallObject = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonText
	jsonOpaque = 15
	// The server nests no deeper than 100 levels.
	jsonDepth = 120
)

var errJSON = errors.New("it is not a JSON document in the server's binary form")

// AppendJSON appends the text of a document in MySQL's binary form, as the server prints it: keys in their stored order, one space
// after commas and colons. An empty document, which ALTER TABLE writes for NULL, is printed as null.
func AppendJSON(dst, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return append(dst, "null"...), nil
	}
	return appendJSONValue(dst, b[0], b[1:], 0)
}

// appendJSONValue appends a value whose bytes begin at b.
func appendJSONValue(dst []byte, typ byte, b []byte, depth int) ([]byte, error) {
	switch typ {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return appendJSONTree(dst, typ, b, depth+1)
	case jsonText:
		text, err := jsonSized(b)
		return appendJSONString(dst, text), err
	case jsonOpaque:
		return appendJSONOpaque(dst, b)
	}
	size := [jsonText]int{jsonLiteral: 1, jsonInt16: 2, jsonUint16: 2, jsonInt32: 4, jsonUint32: 4, jsonInt64: 8, jsonUint64: 8, jsonDouble: 8}
	if int(typ) >= len(size) || len(b) < size[typ] {
		return dst, errJSON
	}
	b = b[:size[typ]]
	n, err := LittleEndian(b)
	if err != nil {
		return dst, errJSON
	}
	switch typ {
	case jsonLiteral:
		if n > 2 {
			return dst, errJSON
		}
		return append(dst, [...]string{"null", "true", "false"}[n]...), nil
	case jsonInt16, jsonInt32, jsonInt64:
		return strconv.AppendInt(dst, Signed(n, len(b)), 10), nil
	case jsonDouble:
		return appendJSONDouble(dst, math.Float64frombits(n))
	}
	return strconv.AppendUint(dst, n, 10), nil
}

// appendJSONTree appends an object or array: the number of members, the size of all, entries of keys (place, length), entries of
// values (type, place or, for what fits, the value itself). Places count from the beginning of the tree.
func appendJSONTree(dst []byte, typ byte, b []byte, depth int) ([]byte, error) {
	object := typ == jsonSmallObject || typ == jsonLargeObject
	width := 2
	if typ == jsonLargeObject || typ == jsonLargeArray {
		width = 4
	}
	number := func(at int) int {
		if width == 2 {
			return int(binary.LittleEndian.Uint16(b[at:]))
		}
		return int(binary.LittleEndian.Uint32(b[at:]))
	}
	if depth > jsonDepth || len(b) < 2*width {
		return dst, errJSON
	}
	count, size := number(0), number(width)
	keys, values := 2*width, 2*width
	if object {
		values += count * (width + 2)
	}
	if size > len(b) || values+count*(width+1) > size {
		return dst, errJSON
	}
	b = b[:size]
	open, end := byte('['), byte(']')
	if object {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for i := range count {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if object {
			entry := keys + i*(width+2)
			at, n := number(entry), int(binary.LittleEndian.Uint16(b[entry+width:]))
			if at+n > size {
				return dst, errJSON
			}
			dst = append(appendJSONString(dst, b[at:at+n]), ": "...)
		}
		entry := values + i*(width+1)
		typ, at := b[entry], entry+1
		if !jsonInline(typ, width) {
			if at = number(entry + 1); at > size {
				return dst, errJSON
			}
		}
		var err error
		if dst, err = appendJSONValue(dst, typ, b[at:], depth); err != nil {
			return dst, err
		}
	}
	return append(dst, end), nil
}

func jsonInline(typ byte, width int) bool {
	switch typ {
	case jsonLiteral, jsonInt16, jsonUint16:
		return true
	case jsonInt32, jsonUint32:
		return width == 4
	}
	return false
}

// jsonSized reads a length of seven bits a byte, lowest first, and returns the bytes that it is the length of.
func jsonSized(b []byte) ([]byte, error) {
	n := 0
	for i := 0; i < len(b) && i < 5; i++ {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 != 0 {
			continue
		}
		if b = b[i+1:]; n > len(b) {
			return nil, errJSON
		}
		return b[:n], nil
	}
	return nil, errJSON
}

// appendJSONString appends a string in quotes. Nearly all characters stand as they are, so what lies between two others is copied at once.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	plain := 0 // where what is not copied yet begins
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(append(dst, s[plain:]...), '"')
}

// appendJSONDouble prints a number as the server does: like others, and with a fraction in any case where it has no exponent.
func appendJSONDouble(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, errJSON
	}
	start := len(dst)
	dst = AppendFloat(dst, f, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

// Types of the server that stand in JSON as they are.
const (
	opaqueTimestamp = 7
	opaqueDate      = 10
	opaqueTime      = 11
	opaqueDatetime  = 12
	opaqueDecimal   = 246
)

// appendJSONOpaque appends a value that JSON has no type for.
func appendJSONOpaque(dst, b []byte) ([]byte, error) {
	if len(b) < 1 {
		return dst, errJSON
	}
	typ := b[0]
	data, err := jsonSized(b[1:])
	if err != nil {
		return dst, err
	}
	switch {
	case typ == opaqueDecimal && len(data) > 2:
		return AppendDecimal(dst, data[2:], int(data[0]), int(data[1]))
	case (typ == opaqueDate || typ == opaqueTime || typ == opaqueDatetime || typ == opaqueTimestamp) && len(data) == 8:
		return append(appendPackedTime(append(dst, '"'), typ, int64(binary.LittleEndian.Uint64(data))), '"'), nil
	}
	dst = fmt.Appendf(dst, `"base64:type%d:`, typ)
	return append(base64.StdEncoding.AppendEncode(dst, data), '"'), nil
}

// appendPackedTime prints the server's number for a time: 24 bits of microseconds below second, minute, hour, and for dates
// day and year*13+month.
func appendPackedTime(dst []byte, typ byte, n int64) []byte {
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	micros := n & 0xffffff
	n >>= 24
	if typ == opaqueTime {
		return fmt.Appendf(dst, "%02d:%02d:%02d.%06d", n>>12&0x3ff, n>>6&63, n&63, micros)
	}
	ym := n >> 22
	dst = fmt.Appendf(dst, "%04d-%02d-%02d", ym/13, ym%13, n>>17&31)
	if typ == opaqueDate {
		return dst
	}
	return fmt.Appendf(dst, " %02d:%02d:%02d.%06d", n>>12&31, n>>6&63, n&63, micros)
}
