package document

import (
	"bytes"
	"encoding/binary"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
)

// A Value is one BSON value where it lies. Its data may be overwritten after the next read from the server.
type Value struct {
	Type bson.Type
	Data []byte
}

// Null reports whether there is nothing: no field at all, null or undefined.
func (v Value) Null() bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

// fieldType is what a value's text means.
func (v Value) fieldType() outbox.FieldType {
	if v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 || v.Type == bson.TypeBoolean {
		return outbox.FieldBare
	}
	return outbox.FieldText
}

var errBSON = errors.New("the document is cut off or no BSON")

// Elements walks over the fields of a document without a copy. It moves a number, not a slice: that is several times for each
// field, and the garbage collector has to be told of a pointer that changes.
type Elements struct {
	fields []byte
	at     int // where the next one begins
	Err    error
}

// ElementsOf begins a walk.
func ElementsOf(doc []byte) Elements {
	if len(doc) < 5 {
		return Elements{Err: errBSON}
	}
	n := int(int32(binary.LittleEndian.Uint32(doc)))
	if n < 5 || n > len(doc) || doc[n-1] != 0 {
		return Elements{Err: errBSON}
	}
	return Elements{fields: doc[4 : n-1]}
}

// Next returns the next field; ok is false at the end, and after an error.
func (e *Elements) Next() (key []byte, v Value, ok bool) {
	rest := e.fields[e.at:]
	if len(rest) == 0 || e.Err != nil {
		return nil, Value{}, false
	}
	typ := bson.Type(rest[0])
	end := bytes.IndexByte(rest[1:], 0)
	if end < 0 {
		e.Err = errBSON
		return nil, Value{}, false
	}
	key = rest[1 : 1+end]
	data := rest[end+2:]
	n := valueLength(typ, data)
	if n < 0 || n > len(data) {
		e.Err = errBSON
		return nil, Value{}, false
	}
	e.at += end + 2 + n
	return key, Value{typ, data[:n:n]}, true
}

// valueLength is how many bytes a value has; negative where it is no value.
func valueLength(typ bson.Type, b []byte) int {
	prefix := func(extra int) int {
		if len(b) < 4 {
			return -1
		}
		n := int(int32(binary.LittleEndian.Uint32(b)))
		if n < 0 {
			return -1
		}
		return n + extra
	}
	switch typ {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		return 8
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		if n := prefix(4); n >= 5 {
			return n
		}
		return -1
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		if n := prefix(0); n >= 5 {
			return n
		}
		return -1
	case bson.TypeBinary:
		return prefix(5)
	case bson.TypeUndefined, bson.TypeNull, bson.TypeMinKey, bson.TypeMaxKey:
		return 0
	case bson.TypeObjectID:
		return 12
	case bson.TypeBoolean:
		return 1
	case bson.TypeInt32:
		return 4
	case bson.TypeDecimal128:
		return 16
	case bson.TypeDBPointer:
		return prefix(16)
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0)
		if pattern < 0 {
			return -1
		}
		flags := bytes.IndexByte(b[pattern+1:], 0)
		if flags < 0 {
			return -1
		}
		return pattern + flags + 2
	}
	return -1
}

// Text is the text of a string, JavaScript code or symbol.
func (v Value) Text() []byte { return v.Data[4 : len(v.Data)-1] }

// Binary is a binary's subtype and bytes. Subtype 2 has its length twice.
func (v Value) Binary() (subtype byte, b []byte) {
	subtype, b = v.Data[4], v.Data[5:]
	if subtype == bson.TypeBinaryBinaryOld && len(b) >= 4 {
		b = b[4:]
	}
	return subtype, b
}

// Int32 is a number of 32 bits.
func (v Value) Int32() int32 { return int32(binary.LittleEndian.Uint32(v.Data)) }

// Int64 is a number of 64 bits, the bits of a double, or the milliseconds of a date.
func (v Value) Int64() int64 { return int64(binary.LittleEndian.Uint64(v.Data)) }

// Timestamp is a timestamp's time: the ordinal comes first.
func (v Value) Timestamp() bson.Timestamp {
	n := binary.LittleEndian.Uint64(v.Data)
	return bson.Timestamp{T: uint32(n >> 32), I: uint32(n)}
}

// uuid reports whether the value is a UUID: a binary of subtype 4, or 3 (the older one, whose bytes are taken as they lie).
func (v Value) uuid() ([]byte, bool) {
	if v.Type != bson.TypeBinary {
		return nil, false
	}
	subtype, b := v.Binary()
	return b, (subtype == bson.TypeBinaryUUID || subtype == bson.TypeBinaryUUIDOld) && len(b) == 16
}

// RawValue is the value for the driver.
func (v Value) RawValue() bson.RawValue { return bson.RawValue{Type: v.Type, Value: v.Data} }

// Field is a field of a document; its type is 0 if there is none.
func Field(doc []byte, name string) Value {
	e := ElementsOf(doc)
	for {
		key, v, ok := e.Next()
		if !ok || string(key) == name {
			return v
		}
	}
}
