package binlog

import (
	"errors"
	"strconv"
)

// decimalBytes is how many bytes the server takes for up to nine decimal digits.
var decimalBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4} //nolint:gochecknoglobals // a constant

// decimalSize is the length of a DECIMAL(digits, scale) in bytes.
func decimalSize(digits, scale int) int {
	if scale > digits || digits < 0 || scale < 0 {
		return 0
	}
	whole := digits - scale
	return whole/9*4 + decimalBytes[whole%9] + scale/9*4 + decimalBytes[scale%9]
}

// AppendDecimal appends a DECIMAL(digits, scale). Nine digits take four bytes, big endian; the digits left before and after the point take
// as few bytes as they need. The first bit is the inverted sign, and all bits of negative numbers are inverted.
func AppendDecimal(dst, b []byte, digits, scale int) ([]byte, error) {
	if len(b) == 0 || len(b) != decimalSize(digits, scale) {
		return dst, ErrLength
	}
	negative := b[0]&0x80 == 0
	pos := 0
	var bad bool
	group := func(n int) uint64 {
		size := decimalBytes[n]
		var v uint64
		for i := range size {
			c := b[pos+i]
			if pos+i == 0 {
				c ^= 0x80
			}
			if negative {
				c = ^c
			}
			v = v<<8 | uint64(c)
		}
		pos += size
		bad = bad || v > 999_999_999
		return v
	}
	if negative {
		dst = append(dst, '-')
	}
	start := len(dst)
	whole := digits - scale
	for n := whole % 9; whole > 0; n = 9 {
		if n > 0 {
			dst = appendGroup(dst, group(n), n, len(dst) == start)
			whole -= n
		}
	}
	if len(dst) == start {
		dst = append(dst, '0')
	}
	if scale > 0 {
		dst = append(dst, '.')
		for left := scale; left > 0; {
			n := min(left, 9)
			dst = appendGroup(dst, group(n), n, false)
			left -= n
		}
	}
	if bad {
		return dst, errors.New("it is not a decimal number")
	}
	return dst, nil
}

// appendGroup appends n digits. If they are the first ones, leading zeros are left out.
func appendGroup(dst []byte, v uint64, n int, first bool) []byte {
	if first && v == 0 {
		return dst
	}
	var buf [20]byte
	text := strconv.AppendUint(buf[:0], v, 10)
	for i := len(text); i < n && !first; i++ {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}
