package outbox

import "strconv"

// A Field is one column of the row that the router asks for, as the database prints it, with times in UTC. Null is SQL NULL.
type Field struct {
	Name  string
	Value []byte
	Null  bool
	Type  FieldType
}

// A FieldType says what the text of a Field means, for who writes it in another form. It is kept with parked deliveries.
type FieldType string

// Types of fields. Whatever has none of its own is a text.
const (
	FieldText FieldType = ""
	// FieldBare is a whole number or a boolean, whose text is JSON as it stands.
	FieldBare    FieldType = "bare"
	FieldFloat32 FieldType = "float32"
	FieldFloat64 FieldType = "float64"
	// FieldBytes are bytes as they are, FieldHex bytes as \x and hexadecimal digits.
	FieldBytes FieldType = "bytes"
	FieldHex   FieldType = "hex"
	// FieldDate is YYYY-MM-DD.
	FieldDate FieldType = "date"
	// FieldTimeMillis and those below are times of the day, and dates with one (without a zone), in columns that count milliseconds at most,
	// or microseconds.
	FieldTimeMillis     FieldType = "time_ms"
	FieldTimeMicros     FieldType = "time_us"
	FieldDatetimeMillis FieldType = "datetime_ms"
	FieldDatetimeMicros FieldType = "datetime_us"
)

// zoned begins the types of points in time.
const zoned FieldType = "zoned"

// ZonedType is a point in time of which Debezium sends so many digits behind the second, those that the column has.
func ZonedType(digits int) FieldType { return zoned + FieldType(strconv.Itoa(digits)) }

// Zoned reports whether it is a point in time, and with how many digits.
func (t FieldType) Zoned() (digits int, ok bool) {
	n := len(zoned)
	if t == zoned { // as versions before wrote it into tailbox_parked
		return 0, true
	}
	if len(t) == n+1 && t[:n] == zoned && t[n] >= '0' && t[n] <= '9' {
		return int(t[n] - '0'), true
	}
	return 0, false
}
