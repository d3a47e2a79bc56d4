package binlog

import (
	"encoding/binary"
	"fmt"
	"time"
)

// AppendDate appends a DATE: three bytes, little endian, with year, month and day.
func AppendDate(dst, b []byte) ([]byte, error) {
	if len(b) != 3 {
		return dst, ErrLength
	}
	n := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return fmt.Appendf(dst, "%04d-%02d-%02d", n>>9, n>>5&15, n&31), nil
}

// fraction reads fractional digits of a second: two digits a byte, big endian.
func fraction(b []byte, digits int) (micros int64, err error) {
	if digits < 0 || digits > 6 || len(b) != (digits+1)/2 {
		return 0, ErrLength
	}
	micros = int64(BigEndian(b))
	for range 3 - len(b) {
		micros *= 100
	}
	return micros, nil
}

// appendFraction appends the fractional digits.
func appendFraction(dst []byte, micros int64, digits int) []byte {
	if digits == 0 {
		return dst
	}
	return append(append(dst, '.'), fmt.Sprintf("%06d", micros)[:digits]...)
}

// AppendDatetime appends a DATETIME. It has five bytes, big endian: a sign, year*13+month in 17 bits, day, hour, minute, second; then
// the fraction. Digits is -1 for the form of old tables, eight bytes of decimal digits.
func AppendDatetime(dst, b []byte, digits int) ([]byte, error) {
	if digits < 0 { // the old form
		if len(b) != 8 {
			return dst, ErrLength
		}
		n := binary.LittleEndian.Uint64(b)
		d, t := n/1_000_000, n%1_000_000
		return fmt.Appendf(dst, "%04d-%02d-%02d %02d:%02d:%02d", d/10000, d/100%100, d%100, t/10000, t/100%100, t%100), nil
	}
	if len(b) < 5 {
		return dst, ErrLength
	}
	micros, err := fraction(b[5:], digits)
	if err != nil {
		return dst, err
	}
	n := BigEndian(b[:5]) - 0x8000000000
	ym := n >> 22
	dst = fmt.Appendf(dst, "%04d-%02d-%02d %02d:%02d:%02d", ym/13, ym%13, n>>17&31, n>>12&31, n>>6&63, n&63)
	return appendFraction(dst, micros, digits), nil
}

// AppendTimestamp appends a TIMESTAMP in UTC. It has the seconds since 1970, big endian, and the fraction. Digits is -1 for the form of old
// tables, which is little endian.
func AppendTimestamp(dst, b []byte, digits int) ([]byte, error) {
	if len(b) < 4 {
		return dst, ErrLength
	}
	if digits < 0 { // the old form
		old := binary.BigEndian.AppendUint32(nil, binary.LittleEndian.Uint32(b))
		return AppendTimestamp(dst, append(old, b[4:]...), 0)
	}
	micros, err := fraction(b[4:], digits)
	if err != nil {
		return dst, err
	}
	seconds := int64(BigEndian(b[:4]))
	if seconds == 0 && micros == 0 {
		return appendFraction(append(dst, "0000-00-00 00:00:00"...), 0, digits), nil
	}
	return appendFraction(time.Unix(seconds, 0).UTC().AppendFormat(dst, "2006-01-02 15:04:05"), micros, digits), nil
}

// AppendTime appends a TIME. It has three bytes, big endian: a sign, hour in 10 bits, minute, second; then a fraction, which belongs to the
// same signed number. Digits is -1 for the form of old tables, three bytes of decimal digits.
func AppendTime(dst, b []byte, digits int) ([]byte, error) {
	if digits < 0 { // the old form
		if len(b) != 3 {
			return dst, ErrLength
		}
		n := int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24) >> 8
		if n < 0 {
			dst, n = append(dst, '-'), -n
		}
		return fmt.Appendf(dst, "%02d:%02d:%02d", n/10000, n/100%100, n%100), nil
	}
	if digits > 6 || len(b) != 3+(digits+1)/2 {
		return dst, ErrLength
	}
	bits := 8 * (len(b) - 3)
	n := int64(BigEndian(b)) - int64(0x800000)<<bits
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	micros := n & (1<<bits - 1)
	for range 3 - bits/8 {
		micros *= 100
	}
	n >>= bits
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", n>>12&0x3ff, n>>6&63, n&63)
	return appendFraction(dst, micros, digits), nil
}
