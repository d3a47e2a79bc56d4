package forms

import (
	"encoding/binary"
	"errors"
)

// JavaMagic begins what Java serializes.
const JavaMagic = "\xac\xed\x00\x05"

// Java's object serialization, as far as a HashMap of arrays of bytes needs it: java.io.ObjectStreamConstants names these.
const (
	javaNull      = 0x70
	javaReference = 0x71
	javaClass     = 0x72
	javaObject    = 0x73
	javaArray     = 0x75
	javaBlock     = 0x77
	javaEnd       = 0x78
)

var errJava = errors.New("it is no HashMap of byte arrays as Java writes it")

// A javaReader takes bytes off the front. What is missing sets bad.
type javaReader struct {
	b   []byte
	bad bool
}

func (r *javaReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *javaReader) byte() byte { return r.take(1)[0] }
func (r *javaReader) int() int   { return int(int32(binary.BigEndian.Uint32(r.take(4)))) }
func (r *javaReader) text() string {
	return string(r.take(int(binary.BigEndian.Uint16(r.take(2)))))
}

// class reads a description of a class, and returns its name; "" for one that was described before.
func (r *javaReader) class() string {
	switch r.byte() {
	case javaReference:
		r.take(4)
		return ""
	case javaClass:
	default:
		r.bad = true
		return ""
	}
	name := r.text()
	r.take(8 + 1) // its version and flags
	for range int(binary.BigEndian.Uint16(r.take(2))) {
		r.byte() // a primitive type
		r.text()
	}
	if r.byte() != javaEnd || r.byte() != javaNull {
		r.bad = true
	}
	return name
}

// bytes reads an array of bytes.
func (r *javaReader) bytes() (text string, null bool) {
	switch r.byte() {
	case javaNull:
		return "", true
	case javaArray:
	default:
		r.bad = true
		return "", false
	}
	if name := r.class(); name != "" && name != "[B" {
		r.bad = true
	}
	return string(r.take(r.int())), false
}

// ReadJavaMap reads a java.util.HashMap of byte arrays, with which Kafka Connect's FileOffsetBackingStore writes offsets. A value that is null is read
// as such in JSON.
func ReadJavaMap(data []byte) (pairs [][2]string, err error) {
	r := &javaReader{b: data[len(JavaMagic):]}
	if r.byte() != javaObject || r.class() != "java.util.HashMap" {
		return nil, errJava
	}
	r.take(4 + 4) // loadFactor, threshold
	if r.byte() != javaBlock || r.byte() != 8 {
		return nil, errJava
	}
	r.int() // its capacity
	for n := r.int(); n > 0 && !r.bad; n-- {
		key, _ := r.bytes()
		value, null := r.bytes()
		if null {
			value = "null"
		}
		pairs = append(pairs, [2]string{key, value})
	}
	if r.byte() != javaEnd || r.bad {
		return nil, errJava
	}
	return pairs, nil
}
