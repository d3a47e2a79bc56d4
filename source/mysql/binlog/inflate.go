package binlog

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// InflatedSize returns the size of what MariaDB compressed, and where in b the compressed bytes begin.
func InflatedSize(b []byte) (size, start int, err error) {
	if len(b) < 1 {
		return 0, 0, Truncated("compressed event")
	}
	n := int(b[0] & 7)
	if b[0]>>4&7 != 0 || n == 0 || n > 4 || len(b) < 1+n {
		return 0, 0, fmt.Errorf("read compressed event: its compression is not zlib: %w", ErrProtocol)
	}
	return int(BigEndian(b[1 : 1+n])), 1 + n, nil
}

// Inflate decompresses at most limit bytes of what MariaDB compressed.
func Inflate(b []byte, limit int) ([]byte, error) {
	size, start, err := InflatedSize(b)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(b[start:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	out := make([]byte, min(size, limit))
	if _, err := io.ReadFull(z, out); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrProtocol, err), z.Close())
	}
	return out, z.Close()
}
