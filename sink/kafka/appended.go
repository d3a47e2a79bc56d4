package kafka

import (
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// appended is the answer to a produce request for one partition. The sink reads it by itself, because it comes once a request, and the library's way
// over types costs as much as the request.
type appended struct {
	code    int16
	message string
	offset  int64 // of the first record
	// refused are the records that the broker blames.
	refused []refusal
	// throttle is how long the broker takes nothing more from this client.
	throttle time.Duration
}

type refusal struct {
	index int32
	text  string
}

// ApiKey implements protocol.Message.
func (*appended) ApiKey() protocol.ApiKey { return protocol.Produce } //nolint:revive // It is the library's name.

// throttlesAfter is the first version in whose answer the throttle is still to come. A broker that does not know it has held back the answer for that
// time.
const throttlesAfter = 6

// readAppended reads the body of an answer, in the versions 3 to 8.
func readAppended(version int16, body []byte) (*appended, error) {
	w := &walk{rest: body}
	a := new(appended)
	partitions := 0
	for range w.count() {
		w.take(max(w.int16(), 0)) // the topic
		for range w.count() {
			w.int32() // the partition
			if partitions++; w.err != nil || partitions > 1 {
				break
			}
			a.code = int16(w.int16())
			a.offset = w.int64()
			w.int64() // the time of the append
			if version >= 5 {
				w.int64() // the first offset of the log
			}
			if version < 8 {
				continue
			}
			for range w.count() {
				a.refused = append(a.refused, refusal{index: int32(w.int32()), text: w.text()})
				if w.err != nil {
					break
				}
			}
			a.message = w.text()
		}
		if w.err != nil || partitions > 1 {
			break
		}
	}
	switch {
	case w.err != nil:
		return nil, w.err
	case partitions != 1:
		return nil, fmt.Errorf("the answer names %d partitions", partitions)
	}
	// This field is the last one: if it is missing, it is known all the same what became of the batch.
	if throttle := w.int32(); version >= throttlesAfter {
		a.throttle = time.Duration(max(throttle, 0)) * time.Millisecond
	}
	return a, nil
}
