package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// put gives a column a value of a draft in the form that its type takes, and returns how many bytes count for MaxMessage.
// What the type would refuse is refused here: on Postgres the database's own error would end the whole transaction.
func (in *Insert) put(r *Row, c *Column, field string, v any) (size int, err error) {
	switch v := v.(type) {
	case nil:
		if c.NotNull {
			return 0, in.refuse(field, "is nil, and column %s may not be NULL", c.Name)
		}
		r.set(c, "NULL", nil)
		return 0, nil
	case map[string]string:
		text, err := headersText(v)
		if err != nil {
			return 0, in.refuse(field, "cannot be written as JSON: %v", err)
		}
		return in.putText(r, c, field, text)
	case string:
		return in.putText(r, c, field, v)
	case []byte:
		if c.Kind == KindBytes || c.Kind == KindBinaryUUID && len(v) == 16 {
			return in.putBytes(r, c, field, v)
		}
		return in.putText(r, c, field, string(v))
	case int64:
		if c.Kind == KindInt {
			return 0, in.putInt(r, c, field, v)
		}
		return in.putText(r, c, field, strconv.FormatInt(v, 10))
	case time.Time:
		return 0, in.putTime(r, c, field, v)
	}
	r.set(c, "%s", v)
	return 0, nil
}

// headersText is a JSON object, its keys sorted.
func headersText(h map[string]string) (string, error) {
	for name, value := range h {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return "", fmt.Errorf("header %q is not UTF-8: encode it", name)
		}
	}
	b, err := JSON(h)
	return string(b), err
}

func (in *Insert) putBytes(r *Row, c *Column, field string, b []byte) (int, error) {
	if c.MaxBytes > 0 && len(b) > c.MaxBytes {
		return 0, in.refuse(field, "has %d bytes, and column %s takes %d", len(b), c.Name, c.MaxBytes)
	}
	if b == nil {
		b = []byte{}
	}
	r.set(c, "%s", b)
	return len(b), nil
}

func (in *Insert) putInt(r *Row, c *Column, field string, n int64) error {
	if n < c.Min || n > c.Max {
		return in.refuse(field, "is %d, and column %s takes %d to %d", n, c.Name, c.Min, c.Max)
	}
	r.set(c, "%s", n)
	return nil
}

// putText writes a text to a column of any kind.
func (in *Insert) putText(r *Row, c *Column, field, text string) (int, error) {
	switch c.Kind {
	case KindBytes:
		return in.putBytes(r, c, field, []byte(text))
	case KindUUID, KindBinaryUUID:
		b, ok := parseUUID(text)
		if !ok {
			return 0, in.refuse(field, "is %.50q, and column %s takes a UUID", text, c.Name)
		}
		if c.Kind == KindBinaryUUID {
			r.set(c, "%s", b[:])
		} else {
			r.set(c, "%s", uuidText(b[:]))
		}
		return 0, nil
	case KindInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, in.refuse(field, "is %.50q, and column %s takes a whole number", text, c.Name)
		}
		return 0, in.putInt(r, c, field, n)
	case KindTime, KindLocalTime:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				return 0, in.putTime(r, c, field, at)
			}
		}
		return 0, in.refuse(field, "is %.50q, and column %s takes a time, such as %s", text, c.Name, time.RFC3339)
	case KindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return 0, in.refuse(field, "is %.50q, and column %s takes true or false", text, c.Name)
		}
		r.set(c, "%s", b)
		return 0, nil
	}
	why := in.against(c, text)
	size := len(text)
	if why == "" && (c.Kind == KindJSON || c.Kind == KindJSONB) {
		why, size = in.againstJSON(c, text)
	}
	if why != "" {
		return 0, in.refuse(field, "%s", why)
	}
	r.set(c, "%s", text)
	return size, nil
}

// against says what a column of text holds against a text; "" if nothing.
func (in *Insert) against(c *Column, text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not UTF-8, as column " + c.Name + " demands: encode it, or make it a column of bytes"
	case in.dialect == Postgres && strings.IndexByte(text, 0) >= 0:
		return "has a zero byte, which column " + c.Name + " does not take: encode it, or make it a column of bytes"
	case c.MaxBytes > 0 && len(text) > c.MaxBytes:
		return fmt.Sprintf("has %d bytes, and column %s takes %d: shorten it, or make the column larger", len(text), c.Name, c.MaxBytes)
	case c.MaxChars > 0 && len(text) > c.MaxChars && utf8.RuneCountInString(text) > c.MaxChars:
		return fmt.Sprintf("has %d characters, and column %s takes %d: shorten it (outbox.Key hashes what is long), or make the column larger",
			utf8.RuneCountInString(text), c.Name, c.MaxChars)
	}
	if most := mostRune(c.Charset); most > 0 {
		for _, char := range text {
			if char > most {
				return fmt.Sprintf("has the character %q, which column %s of character set %s does not take: convert it to utf8mb4", char, c.Name, c.Charset)
			}
		}
	}
	return ""
}

// mostRune is the last character that a character set of MySQL has, as far as that is simple; 0 = all.
func mostRune(charset string) rune {
	switch charset {
	case "ascii":
		return 0x7f
	case "latin1":
		return 0xff
	case "utf8mb3", "utf8":
		return 0xffff
	}
	return 0
}

// Times that MySQL's TIMESTAMP holds, in seconds since 1970.
const firstTimestamp, lastTimestamp = 1, 1<<31 - 1

// putTime writes a time of up to microseconds. One that the column would take for another is refused.
func (in *Insert) putTime(r *Row, c *Column, field string, t time.Time) error {
	t = t.UTC().Truncate(time.Microsecond)
	const layout = "2006-01-02 15:04:05.000000"
	if t.Year() < 1 || t.Year() > 9999 {
		return in.refuse(field, "is in the year %d, and may be in 1 to 9999", t.Year())
	}
	switch {
	case c.Kind == KindTime && in.dialect == MySQL:
		if t.Unix() < firstTimestamp || t.Unix() > lastTimestamp {
			return in.refuse(field, "is %s, and column %s holds 1970 to 2038: make it a DATETIME", t.Format(time.RFC3339), c.Name)
		}
		r.set(c, "FROM_UNIXTIME(CAST(%s AS DECIMAL(20, 6)))", fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000))
	case c.Kind == KindTime:
		r.set(c, "%s", t.Format(layout)+"+00")
	case c.Kind == KindLocalTime:
		r.set(c, "%s", t.Format(layout))
	case c.Kind == KindInt && c.Max > 1<<32:
		return in.putInt(r, c, field, t.UnixMilli())
	case c.Kind == KindInt:
		return in.putInt(r, c, field, t.Unix())
	default:
		_, err := in.putText(r, c, field, t.Format(time.RFC3339Nano))
		return err
	}
	return nil
}
