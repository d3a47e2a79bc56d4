// Package discard is a sink that drops what it is given, and counts it: it measures everything before a sink.
package discard

import (
	"context"
	"sync/atomic"

	"github.com/tailbox/tailbox/sink"
)

// Config has nothing to set.
type Config struct{}

// Read reads a sink of kind discard, which has no keys.
func Read(sink.Section) Config { return Config{} }

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

// Validate finds nothing.
func (Config) Validate() error { return nil }

// A Sink answers every delivery as delivered.
type Sink struct {
	messages, bytes atomic.Int64
}

// New makes a Sink.
func New(Config) (*Sink, error) { return new(Sink), nil }

// Deliver implements sink.Sink.
func (s *Sink) Deliver(_ context.Context, ds []*sink.Delivery) []error {
	var bytes int64
	for _, d := range ds {
		bytes += int64(len(d.Value))
	}
	s.messages.Add(int64(len(ds)))
	s.bytes.Add(bytes)
	return nil
}

// Delivered is how many messages, and bytes of their values, were dropped so far.
func (s *Sink) Delivered() (messages, bytes int64) { return s.messages.Load(), s.bytes.Load() }

// Limits implements sink.Sink. Two calls at once are enough to keep the relay busy.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: 1 << 16, Concurrency: 2, Run: 1 << 16}
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error { return nil }
