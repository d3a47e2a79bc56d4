package binlog

import (
	"bufio"
	"fmt"
	"io"
)

// Fields in the head of a compressed transaction.
const (
	payloadEnd         = 0
	payloadCompression = 2
)

// Compressions of a transaction.
const (
	CompressionZstd = 0
	CompressionNone = 255
)

// ParsePayloadHead reads the head of a compressed transaction (EventPayload) up to the compressed events, and returns how they are
// compressed.
func ParsePayloadHead(r *bufio.Reader) (compression uint64, err error) {
	number := func() (n uint64) {
		if err != nil {
			return 0
		}
		var first byte
		if first, err = r.ReadByte(); err != nil || first < 0xfb {
			return uint64(first)
		}
		size := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[first]
		var b [8]byte
		_, err = io.ReadFull(r, b[:size])
		n, _ = LittleEndian(b[:])
		return n
	}
	for {
		field := number()
		if err != nil {
			return 0, fmt.Errorf("read compressed transaction: %w", err)
		}
		if field == payloadEnd {
			return compression, nil
		}
		size := number()
		if field == payloadCompression {
			compression = number()
		} else if err == nil {
			_, err = r.Discard(int(min(size, 1<<20)))
		}
	}
}
