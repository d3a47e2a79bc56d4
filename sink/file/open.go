package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tailbox/tailbox/sink"
)

// lineStart is how every line of sink.AppendLine begins.
const lineStart = `{"id":`

// open opens the file at path for appending, creates it where there is none, locks it, and repairs its end. It returns
// the file's size.
func open(path string, mode fs.FileMode) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return nil, 0, err
	}
	size, err := prepare(f)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

func prepare(f *os.File) (size int64, err error) {
	if err := regular(f); err != nil {
		return 0, err
	}
	if err := lock(f); err != nil {
		return 0, fmt.Errorf("lock the file, which another relay seems to write: %w", err)
	}
	if size, err = repair(f); err != nil {
		return 0, err
	}
	// The file's name has to be as durable as its content.
	dir, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		return 0, err
	}
	return size, errors.Join(dir.Sync(), dir.Close())
}

func regular(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file: for pipes and terminals use the kind stdout")
	}
	return nil
}

// repair makes the file end with a line break, and returns its size. What follows the last line break was never counted
// as delivered. It is cut off if it is a piece of a line of ours, or nothing but the zeros that a power failure leaves;
// it gets its line break if it is a whole line (an editor took the break away); and anything else is not ours to touch.
func repair(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	tail, err := lastLine(f, size)
	if err != nil || len(tail) == 0 {
		return size, err
	}
	known := min(len(tail), len(lineStart))
	switch {
	case len(bytes.Trim(tail, "\x00")) == 0:
	case string(tail[:known]) != lineStart[:known]:
		return 0, errors.New("the file ends with a line that is neither complete nor the relay's: end it with a line break, or name another file")
	case sink.IsJSON(tail):
		if _, err := f.Write([]byte("\n")); err != nil {
			return 0, fmt.Errorf("end the last line: %w", err)
		}
		return size + 1, f.Sync()
	}
	size -= int64(len(tail))
	if err := f.Truncate(size); err != nil {
		return 0, fmt.Errorf("cut off a torn line: %w", err)
	}
	return size, f.Sync()
}

// maxTail is how far back a line break is looked for. It is far more than the longest line there can be.
const maxTail = 1 << 30

// lastLine returns what follows the last line break of a file of that size.
func lastLine(f *os.File, size int64) ([]byte, error) {
	for n := int64(64 << 10); ; n *= 4 {
		n = min(n, size)
		tail := make([]byte, n)
		if _, err := f.ReadAt(tail, size-n); err != nil {
			return nil, fmt.Errorf("read the last line: %w", err)
		}
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
			return tail[i+1:], nil
		}
		if n == size {
			return tail, nil
		}
		if n >= maxTail {
			return nil, errors.New("the file's end holds no line break: it is not the relay's, name another file")
		}
	}
}
