// Package file is a sink that appends each message as one line of JSON to a file. sink.AppendLine says what a line holds.
//
// A message counts as delivered when its line is on disk (fsync). A call is all or nothing: when a write or fsync fails,
// the file is cut back to where it was. A line that a crash left torn is cut off when the file is opened again; its
// message was never counted, and is sent again. A file that was renamed or removed (log rotation) is noticed at the
// next call, which goes on in a new one. The file is locked while it is open, so that a second relay cannot take a
// line that is being written for a torn one.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/tailbox/tailbox/sink"
)

// DefaultMode is the permission of a file that the sink creates, before umask.
const DefaultMode fs.FileMode = 0o640

// Config of a Sink.
type Config struct {
	// Name is the sink's name, for the field sink of each line. Required.
	Name string
	// Path of the file. Its folder has to exist. Required.
	Path string
	// Mode is the permission of a file that the sink creates. Default DefaultMode.
	Mode fs.FileMode
}

// Read reads the keys of a sink of kind file.
func Read(s sink.Section) Config {
	c := Config{Name: s.Name(), Path: s.Path("path")}
	if mode := s.String("mode", ""); mode != "" {
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			s.Add("mode", mode, "must be permission bits, such as 0640")
		}
		c.Mode = fs.FileMode(bits)
	}
	return c
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

// Exclusive implements sink.Exclusive: a second sink could not lock the file. The file need not be there yet, but a link may lead to its folder.
func (c Config) Exclusive() (key, value, thing string) {
	if c.Path == "" {
		return "", "", ""
	}
	thing = filepath.Clean(c.Path)
	if abs, err := filepath.Abs(c.Path); err == nil {
		thing = abs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(thing)); err == nil {
		thing = filepath.Join(dir, filepath.Base(thing))
	}
	return "path", c.Path, thing
}

func (c Config) withDefaults() Config {
	if c.Mode == 0 {
		c.Mode = DefaultMode
	}
	return c
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, sink.Invalid("name", c.Name, "the sink's name"))
	}
	if c.Path == "" {
		errs = append(errs, sink.Invalid("path", c.Path, "the path of a file"))
	}
	if c.Mode&^fs.ModePerm != 0 {
		errs = append(errs, sink.Invalid("mode", c.Mode, "permission bits, such as 0640"))
	}
	return errors.Join(errs...)
}

// A Sink appends lines to a file. It is made by New.
type Sink struct {
	cfg    Config
	serial *sink.Serial
	// batches recycles the memory of batches whose write has ended.
	batches sync.Pool
	// file is nil while none is open. It belongs to the running write.
	file *os.File
}

// batch is what one write needs: it outlives its call when the call's context ends first.
type batch struct {
	lines []byte
	err   error
}

// New makes a Sink. The file is opened by the first Deliver.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg.withDefaults(), serial: sink.NewSerial()}
	s.batches.New = func() any { return new(batch) }
	return s, nil
}

// Limits implements sink.Sink. One call at a time keeps the order of all lines; calls are large because each costs an
// fsync.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: 5000, Bytes: 4 << 20, Concurrency: 1, Run: 5000}
}

// Deliver implements sink.Sink: all of ds are delivered, or none.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	b := s.batches.Get().(*batch)
	b.lines = b.lines[:0]
	for _, d := range ds {
		b.lines = sink.AppendLine(b.lines, d, s.cfg.Name)
	}
	started, ended := s.serial.Do(ctx, func() { b.err = s.write(b.lines) })
	var answer error
	switch {
	case ended && b.err == nil:
		s.batches.Put(b)
		return nil
	case ended:
		answer = b.err
	case started:
		answer = sink.Unavailable(fmt.Errorf("write to %s, which may yet succeed: %w", s.cfg.Path, context.Cause(ctx)))
	default:
		answer = sink.NotAttempted(fmt.Errorf("write to %s: %w", s.cfg.Path, context.Cause(ctx)))
	}
	answers := make([]error, len(ds))
	for i := range answers {
		answers[i] = answer
	}
	return answers
}

// write appends lines to the file and syncs it. None of its errors is a message's fault: they wait for the operator.
func (s *Sink) write(lines []byte) error {
	size, err := s.ready()
	if err != nil {
		return sink.Misconfigured(describe(err, s.cfg.Path))
	}
	if _, err = s.file.Write(lines); err == nil {
		if err = s.file.Sync(); err == nil {
			return nil
		}
	}
	// After a failed fsync nobody knows what is on disk, and the next one may say that all is well: so what was written
	// is taken back, and the file opened anew.
	err = errors.Join(err, s.file.Truncate(size), s.file.Close())
	s.file = nil
	return sink.Misconfigured(describe(err, s.cfg.Path))
}

// ready makes sure that the open file is the one at the path, and returns its size.
func (s *Sink) ready() (int64, error) {
	if s.file != nil {
		opened, err := s.file.Stat()
		if err != nil {
			return 0, err
		}
		found, err := os.Stat(s.cfg.Path)
		if err == nil && os.SameFile(opened, found) {
			return found.Size(), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		// Everything in it is on disk already.
		err = s.file.Close()
		s.file = nil
		if err != nil {
			return 0, err
		}
	}
	f, size, err := open(s.cfg.Path, s.cfg.Mode)
	if err != nil {
		return 0, err
	}
	s.file = f
	return size, nil
}

func describe(err error, path string) error {
	var fix string
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		fix = ": free some space there"
	case errors.Is(err, fs.ErrNotExist):
		fix = ": create its folder, mkdir -p " + filepath.Dir(path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		fix = ": let the relay's user read and write it"
	case errors.Is(err, syscall.EISDIR):
		fix = ": name a file, not a folder"
	}
	return fmt.Errorf("write to %s: %w%s", path, err, fix)
}

// Check implements sink.Checker. It creates nothing.
func (s *Sink) Check(context.Context) []error {
	f, err := os.OpenFile(s.cfg.Path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(s.cfg.Path)); err == nil {
			return nil
		}
	}
	if err != nil {
		return []error{describe(err, s.cfg.Path)}
	}
	defer func() { _ = f.Close() }() // nothing was written
	if err := regular(f); err != nil {
		return []error{describe(err, s.cfg.Path)}
	}
	return nil
}

// Close implements sink.Sink: it waits for a write that outlived its call, and closes the file.
func (s *Sink) Close(ctx context.Context) error {
	var err error
	_, ended := s.serial.Do(ctx, func() {
		if s.file != nil {
			err = s.file.Close()
			s.file = nil
		}
	})
	if !ended {
		return fmt.Errorf("close %s: a write is held up: %w", s.cfg.Path, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.cfg.Path, err)
	}
	return nil
}
