package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// Bounds of an answer in bytes: of one about topics, whose partitions may be many, and of any other.
const (
	maxTopicsAnswer = 8 << 20
	maxAnswer       = 1 << 20
)

// answerBound is the bound of the answers to one kind of request.
func answerBound(key protocol.ApiKey) uint32 {
	switch key {
	case protocol.Metadata, protocol.Produce:
		return maxTopicsAnswer
	}
	return maxAnswer
}

// answerType is what the library makes of the answers to one kind of request.
func answerType(key protocol.ApiKey) reflect.Type {
	switch key {
	case protocol.ApiVersions:
		return reflect.TypeFor[apiversions.Response]()
	case protocol.Metadata:
		return reflect.TypeFor[metadata.Response]()
	case protocol.DescribeConfigs:
		return reflect.TypeFor[describeconfigs.Response]()
	case protocol.SaslHandshake:
		return reflect.TypeFor[saslhandshake.Response]()
	case protocol.SaslAuthenticate:
		return reflect.TypeFor[saslauthenticate.Response]()
	}
	return nil
}

// checkAnswer walks through the body of an answer as the library's decoder will do, which makes room for as many elements
// and bytes as a length says, and then looks whether they are there.
func checkAnswer(key protocol.ApiKey, version int16, body []byte) error {
	typ := answerType(key)
	if typ == nil {
		return fmt.Errorf("no bounds are known of answers to %v", key)
	}
	w := &walk{rest: body, version: version}
	w.value(typ)
	return w.err
}

// walk is a way through an answer.
type walk struct {
	rest    []byte
	version int16
	err     error
}

var errShort = errors.New("a length in the answer is more than what is left of it")

// take passes so many bytes.
func (w *walk) take(n int) []byte {
	if w.err != nil || n > len(w.rest) {
		if w.err == nil {
			w.err = errShort
		}
		return nil
	}
	taken := w.rest[:n]
	w.rest = w.rest[n:]
	return taken
}

func (w *walk) int16() int {
	if b := w.take(2); b != nil {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return 0
}

func (w *walk) int32() int {
	if b := w.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (w *walk) int64() int64 {
	if b := w.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (w *walk) text() string { return string(w.take(max(w.int16(), 0))) }

// count passes the length of a list.
func (w *walk) count() int {
	n := max(w.int32(), 0)
	if n > len(w.rest) { // each element has a byte at least
		w.err = errors.Join(w.err, errShort)
	}
	if w.err != nil {
		return 0
	}
	return n
}

// value passes one value of a type. All versions that the relay speaks are without compact lengths and tags.
func (w *walk) value(typ reflect.Type) {
	switch typ.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.take(int(typ.Size()))
	case reflect.String:
		w.take(max(w.int16(), 0))
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			w.take(max(w.int32(), 0))
			return
		}
		for range w.count() {
			if w.err != nil {
				return
			}
			w.value(typ.Elem())
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			if field := typ.Field(i); w.err == nil && inVersion(field.Tag.Get("kafka"), w.version) {
				w.value(field.Type)
			}
		}
	default:
		w.err = fmt.Errorf("no bounds are known of a %v", typ)
	}
}

// inVersion reports whether a field with this tag, such as "min=v1,max=v8,nullable", is in a version.
func inVersion(tag string, version int16) bool {
	for option := range strings.SplitSeq(tag, "|") {
		first, last, flexible := -1, -1, false
		for part := range strings.SplitSeq(option, ",") {
			name, value, _ := strings.Cut(part, "=")
			n, err := strconv.Atoi(strings.TrimPrefix(value, "v"))
			switch {
			case err == nil && name == "min":
				first = n
			case err == nil && name == "max":
				last = n
			case name == "tag":
				flexible = true
			}
		}
		if !flexible && first >= 0 && first <= int(version) && int(version) <= last {
			return true
		}
	}
	return false
}
