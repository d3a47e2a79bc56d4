package pgrepl

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Epoch is 2000-01-01 UTC in microseconds since 1970. Postgres counts from there.
const Epoch = 946684800 * 1_000_000

// The server's infinite timestamps.
const infinity, minusInfinity = math.MaxInt64, math.MinInt64

// TimeOf converts microseconds since 2000. Infinity is the end of the year 9999, -infinity the zero time.
func TimeOf(us int64) time.Time {
	switch us {
	case infinity:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	case minusInfinity:
		return time.Time{}
	}
	return finiteTime(us)
}

// finiteTime adds seconds, not microseconds: the latest timestamps would overflow.
func finiteTime(us int64) time.Time {
	return time.Unix(Epoch/1_000_000+us/1_000_000, us%1_000_000*1000).UTC()
}

// AppendTimestamp appends the text of a timestamp as the server prints it with datestyle ISO and time zone UTC.
func AppendTimestamp(dst []byte, us int64, zone bool) []byte {
	switch us {
	case infinity:
		return append(dst, "infinity"...)
	case minusInfinity:
		return append(dst, "-infinity"...)
	}
	t := finiteTime(us)
	dst, bc := appendYMD(dst, t)
	dst = t.AppendFormat(dst, " 15:04:05")
	if frac := t.Nanosecond() / 1000; frac != 0 {
		digits := strings.TrimRight(fmt.Sprintf("%06d", frac), "0")
		dst = append(append(dst, '.'), digits...)
	}
	if zone {
		dst = append(dst, "+00"...)
	}
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// AppendDate appends the text of a date, given in days since 2000-01-01.
func AppendDate(dst []byte, days int64) []byte {
	switch days {
	case 1<<31 - 1:
		return append(dst, "infinity"...)
	case -1 << 31:
		return append(dst, "-infinity"...)
	}
	dst, bc := appendYMD(dst, time.Unix(Epoch/1_000_000+days*86400, 0).UTC())
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendYMD appends YYYY-MM-DD. Year 0 is 1 BC.
func appendYMD(dst []byte, t time.Time) (b []byte, bc bool) {
	y := t.Year()
	if y <= 0 {
		y, bc = 1-y, true
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d", y, int(t.Month()), t.Day()), bc
}

// ParseTime parses a time as the server prints it with datestyle ISO, or in RFC 3339.
func ParseTime(s string) (time.Time, error) {
	switch s {
	case "infinity":
		return TimeOf(infinity), nil
	case "-infinity":
		return TimeOf(minusInfinity), nil
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999",
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	if strings.HasSuffix(s, " BC") {
		return time.Time{}, nil
	}
	return time.Time{}, errors.New("it is not a time")
}
