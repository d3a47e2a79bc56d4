package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// appendTimes appends a date or time as the server prints it in time zone UTC.
func appendTimes(dst []byte, c *column, b []byte) ([]byte, error) {
	switch c.kind {
	case kindDate:
		if len(b) != 3 {
			return dst, errTruncated
		}
		n := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		return fmt.Appendf(dst, "%04d-%02d-%02d", n>>9, n>>5&15, n&31), nil
	case kindTime:
		return appendClock(dst, b, c.digits)
	case kindDatetime:
		return appendDatetime(dst, b, c.digits)
	case kindTimestamp:
		return appendTimestamp(dst, b, c.digits)
	}
	return dst, errors.New("its type is not known")
}

// fraction reads the digits behind the second: two of them take a byte, big end first.
func fraction(b []byte, digits int) (micros int64, err error) {
	if digits < 0 || digits > 6 || len(b) != (digits+1)/2 {
		return 0, errTruncated
	}
	micros = int64(bigEndian(b))
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

// appendDatetime reads five bytes, big end first: a sign, year*13+month in 17 bits, day, hour, minute, second. Old tables have
// eight bytes instead, which are decimal digits.
func appendDatetime(dst, b []byte, digits int) ([]byte, error) {
	if digits < 0 { // the old form
		if len(b) != 8 {
			return dst, errTruncated
		}
		n := binary.LittleEndian.Uint64(b)
		d, t := n/1_000_000, n%1_000_000
		return fmt.Appendf(dst, "%04d-%02d-%02d %02d:%02d:%02d", d/10000, d/100%100, d%100, t/10000, t/100%100, t%100), nil
	}
	if len(b) < 5 {
		return dst, errTruncated
	}
	micros, err := fraction(b[5:], digits)
	if err != nil {
		return dst, err
	}
	n := bigEndian(b[:5]) - 0x8000000000
	ym := n >> 22
	dst = fmt.Appendf(dst, "%04d-%02d-%02d %02d:%02d:%02d", ym/13, ym%13, n>>17&31, n>>12&31, n>>6&63, n&63)
	return appendFraction(dst, micros, digits), nil
}

// appendTimestamp reads seconds since 1970, big end first; old tables have them little end first.
func appendTimestamp(dst, b []byte, digits int) ([]byte, error) {
	if len(b) < 4 {
		return dst, errTruncated
	}
	if digits < 0 { // the old form
		old := binary.BigEndian.AppendUint32(nil, binary.LittleEndian.Uint32(b))
		return appendTimestamp(dst, append(old, b[4:]...), 0)
	}
	micros, err := fraction(b[4:], digits)
	if err != nil {
		return dst, err
	}
	seconds := int64(bigEndian(b[:4]))
	if seconds == 0 && micros == 0 {
		return appendFraction(append(dst, "0000-00-00 00:00:00"...), 0, digits), nil
	}
	return appendFraction(time.Unix(seconds, 0).UTC().AppendFormat(dst, "2006-01-02 15:04:05"), micros, digits), nil
}

// appendClock reads a TIME: three bytes, big end first, with a sign, hour in 10 bits, minute, second, and a fraction that
// belongs to the same signed number. Old tables have three bytes of decimal digits.
func appendClock(dst, b []byte, digits int) ([]byte, error) {
	if digits < 0 { // the old form
		if len(b) != 3 {
			return dst, errTruncated
		}
		n := int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24) >> 8
		if n < 0 {
			dst, n = append(dst, '-'), -n
		}
		return fmt.Appendf(dst, "%02d:%02d:%02d", n/10000, n/100%100, n%100), nil
	}
	if digits > 6 || len(b) != 3+(digits+1)/2 {
		return dst, errTruncated
	}
	bits := 8 * (len(b) - 3)
	n := int64(bigEndian(b)) - int64(0x800000)<<bits
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

// parseTime reads what the server prints, and RFC 3339. A date without a year, month or day is no time.
func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	if strings.HasPrefix(s, "0000-00-00") {
		return time.Time{}, nil
	}
	return time.Time{}, errors.New("it is not a time")
}
