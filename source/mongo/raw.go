package mongo

import (
	"bytes"
	"encoding/binary"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
)

// A value is one BSON value where it lies. Its data may be overwritten after the next read from the server.
type value struct {
	typ  bson.Type
	data []byte
}

// null tells whether there is nothing: no field at all, null or undefined.
func (v value) null() bool {
	return v.typ == 0 || v.typ == bson.TypeNull || v.typ == bson.TypeUndefined
}

// fieldType is what a value's text means.
func (v value) fieldType() outbox.FieldType {
	if v.typ == bson.TypeInt32 || v.typ == bson.TypeInt64 || v.typ == bson.TypeBoolean {
		return outbox.FieldBare
	}
	return outbox.FieldText
}

var errBSON = errors.New("the document is cut off or no BSON")

// An elements walks over the fields of a document without a copy. It moves a number, not a slice: that is several times for each
// field, and the garbage collector has to be told of a pointer that changes.
type elements struct {
	fields []byte
	at     int // where the next one begins
	err    error
}

// elementsOf begins a walk.
func elementsOf(doc []byte) elements {
	if len(doc) < 5 {
		return elements{err: errBSON}
	}
	n := int(int32(binary.LittleEndian.Uint32(doc)))
	if n < 5 || n > len(doc) || doc[n-1] != 0 {
		return elements{err: errBSON}
	}
	return elements{fields: doc[4 : n-1]}
}

// next returns the next field; ok is false at the end, and after an error.
func (e *elements) next() (key []byte, v value, ok bool) {
	rest := e.fields[e.at:]
	if len(rest) == 0 || e.err != nil {
		return nil, value{}, false
	}
	typ := bson.Type(rest[0])
	end := bytes.IndexByte(rest[1:], 0)
	if end < 0 {
		e.err = errBSON
		return nil, value{}, false
	}
	key = rest[1 : 1+end]
	data := rest[end+2:]
	n := valueLength(typ, data)
	if n < 0 || n > len(data) {
		e.err = errBSON
		return nil, value{}, false
	}
	e.at += end + 2 + n
	return key, value{typ, data[:n:n]}, true
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

// str is the text of a string, JavaScript code or symbol.
func (v value) str() []byte { return v.data[4 : len(v.data)-1] }

// binary is a binary's subtype and bytes. Subtype 2 has its length twice.
func (v value) binary() (subtype byte, b []byte) {
	subtype, b = v.data[4], v.data[5:]
	if subtype == bson.TypeBinaryBinaryOld && len(b) >= 4 {
		b = b[4:]
	}
	return subtype, b
}

func (v value) i32() int32     { return int32(binary.LittleEndian.Uint32(v.data)) }
func (v value) i64() int64     { return int64(binary.LittleEndian.Uint64(v.data)) }
func (v value) opTime() opTime { return opTime(binary.LittleEndian.Uint64(v.data)) }

// uuid tells whether the value is a UUID: a binary of subtype 4, or 3 (the older one, whose bytes are taken as they lie).
func (v value) uuid() ([]byte, bool) {
	if v.typ != bson.TypeBinary {
		return nil, false
	}
	subtype, b := v.binary()
	return b, (subtype == bson.TypeBinaryUUID || subtype == bson.TypeBinaryUUIDOld) && len(b) == 16
}

// rawValue is the value for the driver.
func (v value) rawValue() bson.RawValue { return bson.RawValue{Type: v.typ, Value: v.data} }
