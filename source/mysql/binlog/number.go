package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
)

// ErrLength means that a value does not have the length that its type has.
var ErrLength = errors.New("value has a wrong length")

// LittleEndian reads a number of one to eight bytes.
func LittleEndian(b []byte) (uint64, error) {
	var w [8]byte
	if len(b) == 0 || len(b) > 8 {
		return 0, ErrLength
	}
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:]), nil
}

// BigEndian reads a number of at most eight bytes.
func BigEndian(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// Signed gives a number of so many bytes its sign.
func Signed(n uint64, bytes int) int64 {
	shift := 64 - 8*bytes
	return int64(n<<shift) >> shift
}

// AppendFloat appends a number as the server prints a DOUBLE: with the fewest digits that identify it among floats of the given bits,
// and with an exponent if it is below 1e-15, or a whole number of more than 15 digits.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'e', -1, bits) // d.ddde±xx
	mark := bytes.LastIndexByte(text, 'e')
	if mark < 0 {
		return append(dst, text...) // NaN or infinite, which no column holds
	}
	exp, _ := strconv.Atoi(string(text[mark+1:]))
	digits := mark // but for sign and point
	if math.Signbit(f) {
		digits--
	}
	if digits > 1 {
		digits--
	}
	if exp >= -15 && (exp < 15 || digits > exp+1) {
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = append(append(dst, text[:mark]...), 'e')
	return strconv.AppendInt(dst, int64(exp), 10)
}

// AppendUUID appends the canonical form, 8-4-4-4-12, of at most 16 bytes. BINARY(16) is shorter in the log if it ends with zeros.
func AppendUUID(dst, b []byte) ([]byte, error) {
	if len(b) > 16 {
		return dst, ErrLength
	}
	var u [16]byte
	copy(u[:], b)
	dst = hex.AppendEncode(dst, u[:4])
	for i := 4; i < 10; i += 2 {
		dst = append(dst, '-')
		dst = hex.AppendEncode(dst, u[i:i+2])
	}
	dst = append(dst, '-')
	return hex.AppendEncode(dst, u[10:]), nil
}

// AppendUUIDText is AppendUUID for exactly 16 bytes.
func AppendUUIDText(dst, uuid []byte) []byte {
	dst, _ = AppendUUID(dst, uuid) // 16 bytes
	return dst
}
