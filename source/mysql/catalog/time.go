package catalog

import (
	"errors"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// appendTimes appends a date or time as the server prints it in time zone UTC.
func appendTimes(dst []byte, c *Column, b []byte) ([]byte, error) {
	switch c.Kind {
	case KindDate:
		return binlog.AppendDate(dst, b)
	case KindTime:
		return binlog.AppendTime(dst, b, c.Digits)
	case KindDatetime:
		return binlog.AppendDatetime(dst, b, c.Digits)
	case KindTimestamp:
		return binlog.AppendTimestamp(dst, b, c.Digits)
	}
	return dst, errors.New("its type is not known")
}

// ParseTime reads what the server prints, and RFC 3339. A date without a year, month or day is no time.
func ParseTime(s string) (time.Time, error) {
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
