package kafka

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// filled sets all fields of a value, with two elements a list.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.String:
		v.SetString("text")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 {
				filled(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	}
}

// TestAnswersAreWalked writes answers of every kind and version that the relay speaks by the library, and finds that the check goes through all
// of each, and that it refuses each length that is more than what is left.
func TestAnswersAreWalked(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		message protocol.Message
		first   int16
		last    int16
	}{
		{new(apiversions.Response), 0, 2}, {new(metadata.Response), 0, 8},
		{new(describeconfigs.Response), 0, 3}, {new(saslhandshake.Response), 0, 1}, {new(saslauthenticate.Response), 0, 1},
	} {
		filled(reflect.ValueOf(kind.message).Elem())
		key := kind.message.ApiKey()
		if highest := key.SelectVersion(0, 100); highest != kind.last {
			t.Errorf("%v: the library speaks version %d: check it too, and whether it is flexible", key, highest)
		}
		for version := kind.first; version <= kind.last; version++ {
			var frame bytes.Buffer
			if err := protocol.WriteResponse(&frame, version, 1, kind.message); err != nil {
				t.Fatal(err)
			}
			body := frame.Bytes()[8:]
			w := &walk{rest: body, version: version}
			if w.value(answerType(key)); w.err != nil || len(w.rest) > 0 {
				t.Errorf("%v version %d: %v, with %d bytes left of %d", key, version, w.err, len(w.rest), len(body))
			}
			for at := range len(body) - 4 {
				// What the check lets pass, the library decodes, and makes room for no more than there is.
				lie := bytes.Clone(frame.Bytes())
				binary.BigEndian.PutUint32(lie[8+at:], 0x7fffffff)
				if checkAnswer(key, version, lie[8:]) != nil {
					continue
				}
				if _, _, err := protocol.ReadResponse(bytes.NewReader(lie), key, version); err != nil {
					t.Errorf("%v version %d: a lie at %d: %v", key, version, at, err)
				}
			}
		}
	}
}

// TestAppended reads answers to produce requests that the library wrote, in each version, and such as are cut short or not about one partition.
func TestAppended(t *testing.T) {
	t.Parallel()
	if highest := protocol.Produce.SelectVersion(0, 100); highest != 8 {
		t.Errorf("the library speaks version %d: read it too", highest)
	}
	for version := int16(minVersion); version <= 8; version++ {
		response := &produceapi.Response{Topics: []produceapi.ResponseTopic{{Topic: "orders", Partitions: []produceapi.ResponsePartition{{Partition: 7, ErrorCode: 87, BaseOffset: 1 << 40,
			LogAppendTime: 5, LogStartOffset: 6, RecordErrors: []produceapi.ResponseError{{BatchIndex: 1, BatchIndexErrorMessage: "bad"}, {BatchIndex: 4}}, ErrorMessage: "some are bad"}}}}, ThrottleTimeMs: 9}
		var frame bytes.Buffer
		if err := protocol.WriteResponse(&frame, version, 1, response); err != nil {
			t.Fatal(err)
		}
		body := frame.Bytes()[8:]
		want := &appended{code: 87, offset: 1 << 40}
		if version == 8 {
			want.message, want.refused = "some are bad", []refusal{{1, "bad"}, {4, ""}}
		}
		if version >= 6 { // an older broker has throttled before it answered
			want.throttle = 9 * time.Millisecond
		}
		if got, err := readAppended(version, body); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		for n := range len(body) - 4 { // it does without the time to throttle
			if got, err := readAppended(version, body[:n]); err == nil {
				t.Errorf("version %d, cut at %d: %+v", version, n, got)
			}
		}
		for _, other := range []*produceapi.Response{{}, {Topics: response.Topics[:0]}, {Topics: []produceapi.ResponseTopic{{Topic: "orders"}}}, {Topics: append(response.Topics, response.Topics[0])}} {
			frame.Reset()
			if err := protocol.WriteResponse(&frame, version, 1, other); err != nil {
				t.Fatal(err)
			}
			if got, err := readAppended(version, frame.Bytes()[8:]); err == nil {
				t.Errorf("version %d, not one partition: %+v", version, got)
			}
		}
	}
}

// FuzzAppended: whatever a peer answers, reading it ends, with no more than is there.
func FuzzAppended(f *testing.F) {
	f.Add(int16(8), []byte("\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if a, err := readAppended(version, body); err == nil && len(a.refused) > len(body) {
			t.Errorf("%d refusals of %d bytes", len(a.refused), len(body))
		}
	})
}

// FuzzAnswer: whatever a peer answers, the library gets no more to decode than is there.
func FuzzAnswer(f *testing.F) {
	f.Add(int16(protocol.ApiVersions), int16(0), []byte("\x00\x00\x7f\xff\xff\xff"))
	f.Add(int16(protocol.Metadata), int16(4), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02ab"))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if answerType(protocol.ApiKey(key)) == nil || version < 0 || version > protocol.ApiKey(key).SelectVersion(0, 100) {
			return
		}
		if checkAnswer(protocol.ApiKey(key), version, body) != nil {
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
		frame = append(append(frame, 0, 0, 0, 1), body...)
		if _, _, err := protocol.ReadResponse(bytes.NewReader(frame), protocol.ApiKey(key), version); err != nil {
			t.Errorf("%v version %d: %v", protocol.ApiKey(key), version, err)
		}
	})
}
