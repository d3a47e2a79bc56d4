// Package stdout is a sink that writes each message as one line of JSON to standard output: for pipes, for containers
// whose output is collected, and for a look at what the relay sends. sink.AppendLine says what a line holds.
//
// A message counts as delivered when the operating system has taken its whole line. That is not durable: whoever reads
// the pipe has to care for that. A line that could be written only in part (a full disk behind a redirection) is ended
// by a line break before the next one, so that no other line is spoilt; its message is sent again.
package stdout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/tailbox/tailbox/sink"
)

// Config of a Sink.
type Config struct {
	// Name is the sink's name, for the field sink of each line. Required.
	Name string
	// Writer is written to, with one call a batch. Default os.Stdout. The sink does not close it.
	Writer io.Writer
}

// Read reads a sink of kind stdout, which has no keys. The sink writes to w.
func Read(s sink.Section, w io.Writer) Config { return Config{Name: s.Name(), Writer: w} }

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

func (c Config) withDefaults() Config {
	if c.Writer == nil {
		c.Writer = os.Stdout
	}
	return c
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	if c.Name == "" {
		return sink.Invalid("name", c.Name, "the sink's name")
	}
	return nil
}

// A Sink writes lines. It is made by New.
type Sink struct {
	name   string
	w      io.Writer
	serial *sink.Serial
	// batches recycles the memory of batches whose write has ended.
	batches sync.Pool
	// torn says that the last line written is incomplete. It belongs to the running write.
	torn bool
}

// batch is what one write needs: it outlives its call when the call's context ends first.
type batch struct {
	// text is a line break, used only after a torn line, and the lines.
	text []byte
	// ends are the ends of the lines in text.
	ends    []int
	answers []error
}

// New makes a Sink.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Sink{name: cfg.Name, w: cfg.Writer, serial: sink.NewSerial()}
	s.batches.New = func() any { return new(batch) }
	return s, nil
}

// Limits implements sink.Sink. One call at a time keeps the order of all lines.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: 1000, Bytes: 1 << 20, Concurrency: 1, Run: 1000}
}

// Deliver implements sink.Sink. Lines are written in order, so what was accepted is a prefix.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	b := s.batches.Get().(*batch)
	b.text = append(b.text[:0], '\n')
	b.ends = b.ends[:0]
	for _, d := range ds {
		b.text = sink.AppendLine(b.text, d, s.name)
		b.ends = append(b.ends, len(b.text))
	}
	started, ended := s.serial.Do(ctx, func() { b.answers = s.write(b.text, b.ends) })
	switch {
	case ended:
		answers := b.answers
		b.answers = nil
		s.batches.Put(b)
		return answers
	case started:
		return all(len(ds), sink.Unavailable(fmt.Errorf("write to standard output, which may yet succeed: %w", context.Cause(ctx))))
	default:
		return all(len(ds), sink.NotAttempted(fmt.Errorf("write to standard output: %w", context.Cause(ctx))))
	}
}

// write writes text, but for the line break it begins with unless the last line is torn.
func (s *Sink) write(text []byte, ends []int) []error {
	skip := 1
	if s.torn {
		skip = 0
	}
	n, err := s.w.Write(text[skip:])
	if err == nil {
		s.torn = false
		return nil
	}
	written := skip + n
	answers := make([]error, len(ends))
	answer := sink.Misconfigured(describe(err))
	if n > 0 {
		// One byte alone may be the line break that ends the torn line.
		s.torn = written > 1
	}
	for i, end := range ends {
		if end > written {
			answers[i] = answer
		} else if end == written {
			s.torn = false
		}
	}
	return answers
}

// describe adds the fix. None of these errors is a message's fault, so that all of them wait for the operator.
func describe(err error) error {
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return fmt.Errorf("write to standard output: %w: nothing reads it any more; start the relay anew, with a reader", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("write to standard output: %w: free some space where it is redirected to", err)
	}
	return fmt.Errorf("write to standard output: %w", err)
}

func all(n int, err error) []error {
	answers := make([]error, n)
	for i := range answers {
		answers[i] = err
	}
	return answers
}

// Close implements sink.Sink: it waits for a write that outlived its call.
func (s *Sink) Close(ctx context.Context) error {
	if _, ended := s.serial.Do(ctx, func() {}); !ended {
		return fmt.Errorf("close standard output: a write is held up: %w", context.Cause(ctx))
	}
	return nil
}
