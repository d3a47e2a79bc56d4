package session

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// A Row is a row of a result. Its values are valid while the result is.
type Row []mysql.FieldValue

// Null reports whether a value is NULL.
func (r Row) Null(i int) bool { return r[i].Type == mysql.FieldValueTypeNull }

// Text is a copy; "" for NULL.
func (r Row) Text(i int) string {
	if r.Null(i) {
		return ""
	}
	return string(r[i].AsString())
}

// TextOrNil is a copy; nil for NULL.
func (r Row) TextOrNil(i int) *string {
	if r.Null(i) {
		return nil
	}
	text := r.Text(i)
	return &text
}

// Bytes is a copy; nil for NULL, and not nil for empty.
func (r Row) Bytes(i int) []byte {
	if r.Null(i) {
		return nil
	}
	return append([]byte{}, r[i].AsString()...)
}

// Num is a whole number; 0 for NULL and for what is none.
func (r Row) Num(i int) int64 {
	switch r[i].Type {
	case mysql.FieldValueTypeSigned:
		return r[i].AsInt64()
	case mysql.FieldValueTypeUnsigned:
		return int64(r[i].AsUint64())
	case mysql.FieldValueTypeFloat:
		return int64(r[i].AsFloat64())
	case mysql.FieldValueTypeString:
		n, err := strconv.ParseInt(string(r[i].AsString()), 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

// Unsigned is Num for a number without a sign.
func (r Row) Unsigned(i int) uint64 { return uint64(r.Num(i)) }

// Bool reports whether a number is not 0.
func (r Row) Bool(i int) bool { return r.Num(i) != 0 }

// Time is a DATETIME in UTC; zero for NULL.
func (r Row) Time(i int) (time.Time, error) {
	if r.Null(i) {
		return time.Time{}, nil
	}
	t, err := time.Parse("2006-01-02 15:04:05.999999", string(r[i].AsString()))
	if err != nil {
		return time.Time{}, fmt.Errorf("read time: %w", err)
	}
	return t, nil
}
