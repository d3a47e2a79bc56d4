package mysql

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// largePacket handles a packet that is larger than the buffer: piece by piece, and never more of it in memory than
// max_message.
func (st *stream) largePacket(ctx context.Context) error {
	body, err := st.wire.openLarge()
	if err != nil {
		return err
	}
	p := &pieces{r: body, left: 1 + headerSize}
	b, err := p.take(1 + headerSize)
	if err != nil {
		return err
	}
	if b[0] != 0 {
		return fmt.Errorf("read the binlog: packet of kind %d: %w", b[0], errProtocol)
	}
	h, _ := parseHeader(b[1:])
	p.left = int(h.size) - headerSize
	if st.checksum {
		p.left -= checksumSize
	}
	if p.left < 0 {
		return truncated("event")
	}
	if err := st.prove(&h); err != nil {
		return err
	}
	if err := st.advance(&h); err != nil {
		return err
	}
	if err := st.largeEvent(ctx, &h, p); err != nil {
		return err
	}
	return body.skip() // what nobody wanted, and the checksum
}

// maxWhole is up to which size an event that is needed as a whole is taken into memory.
const maxWhole = 16 << 20

// largeEvent handles an event in pieces.
func (st *stream) largeEvent(ctx context.Context, h *header, p *pieces) error {
	switch h.typ {
	case eventPayload:
		return st.payload(ctx, io.LimitReader(p.r, int64(p.left)))
	case eventQuery, eventExecuteLoad:
		b, err := p.take(min(p.left, maxQuery))
		if err != nil {
			return err
		}
		schema, query, err := parseQuery(h.typ, b)
		if err != nil {
			return err
		}
		return st.query(ctx, schema, query)
	case eventRowsQuery, eventAnnotateRows, eventUserVar, eventBeginLoad, eventAppendBlock:
		return nil
	case eventWriteRows, eventWriteRowsV1, eventWriteRowsZ, eventWriteRowsZ2,
		eventUpdateRows, eventUpdateRowsV1, eventUpdateRowsZ, eventUpdateRowsZ2, eventPartialUpdate,
		eventDeleteRows, eventDeleteRowsV1, eventDeleteRowsZ, eventDeleteRowsZ2:
		return st.largeRows(ctx, h.typ, p)
	}
	if p.left > maxWhole {
		return fmt.Errorf("read the binlog at %s: event of type %d has %d bytes: %w", st.cur, h.typ, p.left, errProtocol)
	}
	b := make([]byte, p.left)
	if err := p.full(b); err != nil {
		return err
	}
	return st.dispatch(ctx, h, b)
}

// largeRows handles an event with rows in pieces.
func (st *stream) largeRows(ctx context.Context, typ byte, p *pieces) error {
	size := p.left
	fixed := tableIDSize + 2
	_, compressed, v2 := rowsKind(typ)
	head, err := p.take(fixed)
	if err != nil {
		return err
	}
	head = bytes.Clone(head)
	l, wanted, err := st.layoutOf(ctx, typ, head)
	if err != nil || !wanted {
		st.pass(size)
		return err
	}
	more := func(n int) error {
		b, err := p.take(n)
		head = append(head, b...)
		return err
	}
	if v2 {
		if err := more(2); err != nil {
			return err
		}
		extra, _ := littleEndian(head[fixed:])
		if err := more(max(int(extra)-2, 0)); err != nil {
			return err
		}
	}
	columns := len(l.wire)
	count := 1
	if columns > 250 {
		count = 3
	}
	if err := more(count + (columns+7)/8); err != nil {
		return err
	}
	e, _, err := parseRowsHead(head, columns, v2)
	if err != nil {
		return err
	}
	if compressed {
		b, err := p.take(5)
		if err != nil {
			return err
		}
		plain, start, err := inflatedSize(b)
		if err != nil {
			return err
		}
		rest := io.MultiReader(bytes.NewReader(bytes.Clone(b[start:])), io.LimitReader(p.r, int64(p.left)))
		return st.inflated(ctx, l, &e, rest, plain)
	}
	start := size - p.left
	if err := st.pieceRows(ctx, l, &e, p, start); err != nil {
		return err
	}
	st.pass(size)
	return nil
}

// inflateRows handles compressed rows in memory that would be large when they are not compressed.
func (st *stream) inflateRows(ctx context.Context, l *layout, e *rowsEvent, b []byte, size int) error {
	_, start, err := inflatedSize(b)
	if err != nil {
		return err
	}
	return st.inflated(ctx, l, e, bytes.NewReader(b[start:]), size)
}

func (st *stream) inflated(ctx context.Context, l *layout, e *rowsEvent, r io.Reader, size int) error {
	z, err := zlib.NewReader(r)
	if err != nil {
		return fmt.Errorf("read rows of %s: %w: %w", l.plan.Table, errProtocol, err)
	}
	if err := st.pieceRows(ctx, l, e, &pieces{r: z, left: size}, 0); err != nil {
		return err
	}
	st.pass(size)
	return nil
}

// pieceRows reads rows until the body ends. Start is how much of the event stands before them.
func (st *stream) pieceRows(ctx context.Context, l *layout, e *rowsEvent, p *pieces, start int) error {
	p.r = bufio.NewReaderSize(p.r, 32<<10)
	size := p.left
	for p.left > 0 {
		at, before := start+size-p.left, p.left
		var tooLarge bool
		var err error
		if st.vals, tooLarge, err = l.readRow(e, p, st.cfg.MaxMessage, st.vals); err != nil {
			return err
		}
		if before == p.left {
			return truncated("rows of " + l.plan.Table)
		}
		if err := st.row(ctx, l, uint64(at)/2, tooLarge, before-p.left); err != nil {
			return err
		}
		clear(st.vals) // or they would keep the row in memory
	}
	return nil
}

// Fields of a compressed transaction.
const (
	payloadEnd         = 0
	payloadCompression = 2
	compressionZstd    = 0
	compressionNone    = 255
)

// payload handles a compressed transaction: all its events but the GTID, one after the other, as a stream.
func (st *stream) payload(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, 16<<10)
	compression, err := payloadHead(br)
	if err != nil {
		return err
	}
	var plain io.Reader = br
	switch compression {
	case compressionNone:
	case compressionZstd:
		if st.zstd == nil {
			st.zstd, err = zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		} else {
			err = st.zstd.Reset(br)
		}
		if err != nil {
			return fmt.Errorf("read compressed transaction: %w", err)
		}
		plain = st.zstd
	default:
		return fmt.Errorf("read compressed transaction: its compression %d is not known: %w", compression, errProtocol)
	}
	st.inner = true
	err = st.payloadEvents(ctx, bufio.NewReaderSize(plain, 64<<10))
	st.inner = false
	return err
}

func payloadHead(r *bufio.Reader) (compression uint64, err error) {
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
		n, _ = littleEndian(b[:])
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

// payloadEvents handles the events in a compressed transaction. They have no checksum, and no place of their own.
func (st *stream) payloadEvents(ctx context.Context, r *bufio.Reader) error {
	for {
		b, err := r.Peek(headerSize)
		if errors.Is(err, io.EOF) && len(b) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read compressed transaction: %w", err)
		}
		h, _ := parseHeader(b)
		if h.size < headerSize {
			return truncated("event in a compressed transaction")
		}
		if _, err := r.Discard(headerSize); err != nil {
			return fmt.Errorf("read compressed transaction: %w", err)
		}
		p := &pieces{r: r, left: int(h.size) - headerSize}
		if int(h.size) > bufferSize {
			if err := st.largeEvent(ctx, &h, p); err != nil {
				return err
			}
			if err := p.discard(p.left); err != nil {
				return err
			}
			continue
		}
		if cap(st.scratch) < p.left {
			st.scratch = make([]byte, max(p.left, 16<<10))
		}
		body := st.scratch[:p.left]
		if err := p.full(body); err != nil {
			return err
		}
		if err := st.dispatch(ctx, &h, body); err != nil {
			return err
		}
	}
}
