package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// TestSweptBatchesAreSmall: whatever part of a message is large, no more than one such message is in memory before the relay has room for it.
func TestSweptBatchesAreSmall(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for name, m := range map[string]outbox.Message{
		"correlation id": {CorrelationID: large}, "idempotency key": {IdempotencyKey: large}, "content type": {ContentType: large}, "topic": {Topic: large},
		"field": {Fields: []outbox.Field{{Name: "f", Value: []byte(large)}}}, "payload": {Payload: []byte(large)},
	} {
		most, total := 0, 0
		s := store.Sweep{Log: 1, Emit: func(_ context.Context, b *source.Batch) error {
			most, total = max(most, len(b.Messages)), total+len(b.Messages)
			return nil
		}}
		for range 10 {
			one := m
			if err := s.Add(t.Context(), &one, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(t.Context()); err != nil || most != 1 || total != 10 {
			t.Errorf("a large %s: %d messages in batches of up to %d, %v", name, total, most, err)
		}
	}
}
