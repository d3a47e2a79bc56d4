// Package compressed delivers values compressed by Zstandard, through a sink of any kind whose deliveries have headers.
package compressed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

const (
	// Header says that a value is compressed, and how.
	Header = "content-encoding"
	// Zstd is its value, and the name of the algorithm in the configuration.
	Zstd = "zstd"

	headerType = "content-type"
	// DefaultMinSize is the size from which on a value is compressed: smaller ones hardly become smaller.
	DefaultMinSize = 1 << 10
)

// Config of a sink around another one.
type Config struct {
	// MinSize is the size in bytes from which on a value is compressed. Default DefaultMinSize.
	MinSize int
	// ContentType: where a message does not say its content type, and its value is JSON, the header content-type says so. It is for
	// sinks that would look at the value to find out.
	ContentType bool
}

// A Body is a spec of a sink that sends a value as a body, and looks at it to find its content type.
type Body interface {
	sink.Spec
	// Uncompressible says why values cannot be compressed as the sink is configured; "" if they can.
	Uncompressible() string
}

// Read reads the keys payload_compression and min_size, and puts the compression in front of the sink where they ask for it.
func Read(s sink.Section, inner sink.Spec) sink.Spec {
	algorithm, least := s.Choice("payload_compression", "none", "none", Zstd), s.Size("min_size", DefaultMinSize, 1)
	if algorithm == "none" {
		if s.Has("min_size") {
			s.Add("min_size", "", "has no effect without payload_compression: zstd")
		}
		return inner
	}
	c := Config{MinSize: int(least)}
	if body, ok := inner.(Body); ok {
		c.ContentType = true
		if why := body.Uncompressible(); why != "" {
			s.Add("payload_compression", Zstd, why)
		}
	}
	return spec{inner, c}
}

// spec is a sink with the compression in front of it.
type spec struct {
	sink.Spec
	config Config
}

// Open implements sink.Spec.
func (p spec) Open() (sink.Sink, error) {
	inner, err := p.Spec.Open()
	if err != nil {
		return nil, err
	}
	return New(inner, p.config)
}

// Server implements sink.Served.
func (p spec) Server() (host string, port int) {
	if served, ok := p.Spec.(sink.Served); ok {
		return served.Server()
	}
	return "", 0
}

// New puts compression in front of a sink, which it closes. A value stays as it is where it is small, does not become smaller, or
// where the message says itself how it is encoded. The result implements what the sink does of sink.Destinations and sink.Checker.
func New(inner sink.Sink, c Config) (sink.Sink, error) {
	if c.MinSize <= 0 {
		c.MinSize = DefaultMinSize
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	s := &compressing{inner, c, encoder}
	to, places := inner.(sink.Destinations)
	check, checks := inner.(sink.Checker)
	switch {
	case places && checks:
		return struct {
			*compressing
			sink.Destinations
			sink.Checker
		}{s, to, check}, nil
	case places:
		return struct {
			*compressing
			sink.Destinations
		}{s, to}, nil
	case checks:
		return struct {
			*compressing
			sink.Checker
		}{s, check}, nil
	}
	return s, nil
}

// compressing implements sink.Sink. EncodeAll of an encoder may be called by several goroutines.
type compressing struct {
	inner   sink.Sink
	cfg     Config
	encoder *zstd.Encoder
}

// Limits implements sink.Sink. Bytes are those before the compression.
func (s *compressing) Limits() sink.Limits { return s.inner.Limits() }

// Close implements sink.Sink.
func (s *compressing) Close(ctx context.Context) error { return s.inner.Close(ctx) }

// Deliver implements sink.Sink.
func (s *compressing) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	out := ds
	for i, d := range ds {
		smaller := s.compress(d)
		if smaller == nil {
			continue
		}
		if &out[0] == &ds[0] {
			out = slices.Clone(ds)
		}
		out[i] = smaller
	}
	return s.inner.Deliver(ctx, out)
}

// compress is the delivery with its value compressed; nil if it stays as it is.
func (s *compressing) compress(d *sink.Delivery) *sink.Delivery {
	if len(d.Value) < s.cfg.MinSize || says(d, Header) {
		return nil
	}
	value := s.encoder.EncodeAll(d.Value, make([]byte, 0, len(d.Value)/2))
	if len(value) >= len(d.Value) {
		return nil
	}
	c := *d
	c.Value = value
	c.Headers = append(d.Headers[:len(d.Headers):len(d.Headers)], outbox.Header{Name: Header, Value: []byte(Zstd)})
	if s.cfg.ContentType && d.Message.ContentType == "" && !says(d, headerType) && sink.IsJSON(d.Value) {
		c.Headers = append(c.Headers, outbox.Header{Name: headerType, Value: []byte("application/json")})
	}
	return &c
}

// says reports whether a delivery has a header.
func says(d *sink.Delivery, name string) bool {
	is := func(h outbox.Header) bool { return strings.EqualFold(h.Name, name) }
	return slices.ContainsFunc(d.Headers, is) || slices.ContainsFunc(d.Message.Headers, is)
}
