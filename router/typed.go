package router

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// typedCell is a column as Debezium's connectors send it by default: bytes, numbers as Java prints them, times as counts since 1970 or
// since midnight, points in time as ISO 8601. What has no such form, such as infinity and the years before 1, stays the database's text.
func typedCell(f *outbox.Field) cell {
	text := cell{text: f.Value}
	switch f.Type {
	case outbox.FieldText:
		return text
	case outbox.FieldBare:
		text.bare = true
		return text
	case outbox.FieldBytes:
		text.bytes = true
		return text
	case outbox.FieldHex:
		digits, ok := bytes.CutPrefix(f.Value, []byte(`\x`))
		b, err := hex.AppendDecode([]byte{}, digits)
		if !ok || err != nil {
			return text
		}
		return cell{text: b, bytes: true}
	case outbox.FieldFloat32:
		return floatCell(text, 32)
	case outbox.FieldFloat64:
		return floatCell(text, 64)
	}
	if digits, ok := f.Type.Zoned(); ok {
		if b, ok := zonedText(f.Value, digits); ok {
			return cell{text: b}
		}
		return text
	}
	n, ok := count(f.Type, f.Value)
	if !ok {
		return text
	}
	return cell{text: strconv.AppendInt(nil, n, 10), bare: true}
}

// count is a date in days, or a time in the unit of its type.
func count(t outbox.FieldType, text []byte) (n int64, ok bool) {
	if t == outbox.FieldTimeMillis || t == outbox.FieldTimeMicros {
		n, ok = clock(text)
	} else {
		var days int64
		var rest []byte
		if days, rest, ok = calendar(text); !ok {
			return 0, false
		}
		if t == outbox.FieldDate {
			return days, len(rest) == 0
		}
		if len(rest) == 0 || rest[0] != ' ' || len(rest) > 1 && rest[1] == '-' {
			return 0, false
		}
		const day = int64(24 * time.Hour / time.Microsecond)
		n, ok = clock(rest[1:])
		ok = ok && days < math.MaxInt64/day // Postgres knows later times
		n += days * day
	}
	switch t {
	case outbox.FieldTimeMillis, outbox.FieldDatetimeMillis:
		return n / 1000, ok
	case outbox.FieldTimeMicros, outbox.FieldDatetimeMicros:
		return n, ok
	}
	return 0, false
}

// calendar reads YYYY-MM-DD, of years that may have more digits, and returns the days since 1970.
func calendar(text []byte) (days int64, rest []byte, ok bool) {
	year, rest, ok := number(text, 4, 6, '-')
	month, rest, ok1 := number(rest, 2, 2, '-')
	day, rest, ok2 := number(rest, 2, 2, 0)
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if !ok || !ok1 || !ok2 || year == 0 || t.Day() != day || int(t.Month()) != month { // MySQL knows dates such as 2024-00-00
		return 0, nil, false
	}
	return t.Unix() / int64(24*time.Hour/time.Second), rest, true
}

// clock reads HH:MM:SS with up to six digits behind the second, of hours that may be more than a day's or below zero, in microseconds.
func clock(text []byte) (micros int64, ok bool) {
	text, negative := bytes.CutPrefix(text, []byte{'-'})
	hours, rest, ok := number(text, 2, 3, ':')
	minutes, rest, ok1 := number(rest, 2, 2, ':')
	seconds, rest, ok2 := number(rest, 2, 2, 0)
	if !ok || !ok1 || !ok2 {
		return 0, false
	}
	micros = int64(hours*3600+minutes*60+seconds) * 1_000_000
	if len(rest) > 0 {
		fraction, end, ok := number(rest[1:], 1, 6, 0)
		if rest[0] != '.' || !ok || len(end) > 0 {
			return 0, false
		}
		for range 7 - len(rest) {
			fraction *= 10
		}
		micros += int64(fraction)
	}
	if negative {
		micros = -micros
	}
	return micros, true
}

// number reads so many digits and, unless that is 0, what stands behind them.
func number(text []byte, least, most int, behind byte) (n int, rest []byte, ok bool) {
	i := 0
	for i < len(text) && i < most && text[i] >= '0' && text[i] <= '9' {
		n = n*10 + int(text[i]-'0')
		i++
	}
	if i < least {
		return 0, nil, false
	}
	if behind == 0 {
		return n, text[i:], true
	}
	if i == len(text) || text[i] != behind {
		return 0, nil, false
	}
	return n, text[i+1:], true
}

// zonedText writes a point in time, which the database prints in UTC, with at least so many digits behind the second; below 0 without the
// zeros that mean nothing.
func zonedText(text []byte, digits int) (b []byte, ok bool) {
	text = bytes.TrimSuffix(text, []byte("+00"))
	date, of, ok := bytes.Cut(text, []byte{' '})
	if _, rest, valid := calendar(date); !ok || !valid || len(rest) > 0 {
		return nil, false
	}
	if _, ok := clock(of); !ok || of[0] == '-' {
		return nil, false
	}
	if len(date) > len("2006-01-02") {
		b = append(b, '+')
	}
	b = append(append(append(b, date...), 'T'), of...)
	if digits > 0 {
		if len(of) == len("15:04:05") {
			b = append(b, '.')
		}
		for range len("15:04:05.") + digits - max(len(of), len("15:04:05.")) {
			b = append(b, '0')
		}
	}
	return append(b, 'Z'), true
}

// floatCell writes a number as Java does: with a fraction, and with an exponent where it is below 0.001 or from ten millions on.
func floatCell(text cell, bits int) cell {
	f, err := strconv.ParseFloat(string(text.text), bits)
	switch {
	case err != nil:
		return text
	case math.IsNaN(f):
		return cell{text: []byte("NaN")}
	case math.IsInf(f, 1):
		return cell{text: []byte("Infinity")}
	case math.IsInf(f, -1):
		return cell{text: []byte("-Infinity")}
	}
	if abs := math.Abs(f); abs == 0 || abs >= 1e-3 && abs < 1e7 {
		b := strconv.AppendFloat(nil, f, 'f', -1, bits)
		if bytes.IndexByte(b, '.') < 0 {
			b = append(b, ".0"...)
		}
		return cell{text: b, bare: true}
	}
	b := strconv.AppendFloat(nil, f, 'e', -1, bits) // d.ddde±xx
	mark := bytes.IndexByte(b, 'e')
	exponent, _ := strconv.Atoi(string(b[mark+1:]))
	b = b[:mark]
	if bytes.IndexByte(b, '.') < 0 {
		b = append(b, ".0"...)
	}
	return cell{text: strconv.AppendInt(append(b, 'E'), int64(exponent), 10), bare: true}
}
