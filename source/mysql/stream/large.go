package stream

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// pieces reads what is large, or is compressed and may be large, piece by piece.
type pieces struct{ *stream }

// largePacket handles a packet that is larger than the buffer: piece by piece, and never more of it in memory than
// max_message.
func (st pieces) largePacket(ctx context.Context) error {
	body, err := st.wire.OpenLarge()
	if err != nil {
		return err
	}
	p := &binlog.Body{R: body, Left: 1 + binlog.HeaderSize}
	b, err := p.Take(1 + binlog.HeaderSize)
	if err != nil {
		return err
	}
	if b[0] != 0 {
		return fmt.Errorf("read the binlog: packet of kind %d: %w", b[0], binlog.ErrProtocol)
	}
	h, _ := binlog.ParseHeader(b[1:])
	p.Left = int(h.Size) - binlog.HeaderSize
	if st.checksum {
		p.Left -= binlog.ChecksumSize
	}
	if p.Left < 0 {
		return binlog.Truncated("event")
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
	return body.Skip() // what nobody wanted, and the checksum
}

// maxWhole is up to which size an event that is needed as a whole is taken into memory.
const maxWhole = 16 << 20

// largeEvent handles an event in pieces.
func (st pieces) largeEvent(ctx context.Context, h *binlog.Header, p *binlog.Body) error {
	switch h.Type {
	case binlog.EventPayload:
		return st.payload(ctx, io.LimitReader(p.R, int64(p.Left)))
	case binlog.EventQuery, binlog.EventExecuteLoad:
		b, err := p.Take(min(p.Left, binlog.MaxQuery))
		if err != nil {
			return err
		}
		schema, query, err := binlog.ParseQuery(h.Type, b)
		if err != nil {
			return err
		}
		return st.query(ctx, schema, query)
	case binlog.EventRowsQuery, binlog.EventAnnotateRows, binlog.EventUserVar, binlog.EventBeginLoad, binlog.EventAppendBlock:
		return nil
	case binlog.EventWriteRows, binlog.EventWriteRowsV1, binlog.EventWriteRowsZ, binlog.EventWriteRowsZ2,
		binlog.EventUpdateRows, binlog.EventUpdateRowsV1, binlog.EventUpdateRowsZ, binlog.EventUpdateRowsZ2, binlog.EventPartialUpdate,
		binlog.EventDeleteRows, binlog.EventDeleteRowsV1, binlog.EventDeleteRowsZ, binlog.EventDeleteRowsZ2:
		return st.largeRows(ctx, h.Type, p)
	}
	if p.Left > maxWhole {
		return fmt.Errorf("read the binlog at %s: event of type %d has %d bytes: %w", st.cur, h.Type, p.Left, binlog.ErrProtocol)
	}
	b := make([]byte, p.Left)
	if err := p.ReadFull(b); err != nil {
		return err
	}
	return st.dispatch(ctx, h, b)
}

// largeRows handles an event with rows in pieces.
func (st pieces) largeRows(ctx context.Context, typ byte, p *binlog.Body) error {
	size := p.Left
	fixed := binlog.TableIDSize + 2
	_, compressed, v2 := binlog.RowsKind(typ)
	head, err := p.Take(fixed)
	if err != nil {
		return err
	}
	head = bytes.Clone(head)
	l, wanted, err := st.rowSchemaOf(ctx, typ, head)
	if err != nil || !wanted {
		st.pass(size)
		return err
	}
	more := func(n int) error {
		b, err := p.Take(n)
		head = append(head, b...)
		return err
	}
	if v2 {
		if err := more(2); err != nil {
			return err
		}
		extra, _ := binlog.LittleEndian(head[fixed:])
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
	e, _, err := binlog.ParseRowsHead(head, columns, v2)
	if err != nil {
		return err
	}
	if compressed {
		b, err := p.Take(5)
		if err != nil {
			return err
		}
		plain, start, err := binlog.InflatedSize(b)
		if err != nil {
			return err
		}
		rest := io.MultiReader(bytes.NewReader(bytes.Clone(b[start:])), io.LimitReader(p.R, int64(p.Left)))
		return st.inflated(ctx, l, &e, rest, plain)
	}
	start := size - p.Left
	if err := st.pieceRows(ctx, l, &e, p, start); err != nil {
		return err
	}
	st.pass(size)
	return nil
}

// inflateRows handles compressed rows in memory that would be large when they are not compressed.
func (st pieces) inflateRows(ctx context.Context, l *rowSchema, e *binlog.RowsHead, b []byte, size int) error {
	_, start, err := binlog.InflatedSize(b)
	if err != nil {
		return err
	}
	return st.inflated(ctx, l, e, bytes.NewReader(b[start:]), size)
}

func (st pieces) inflated(ctx context.Context, l *rowSchema, e *binlog.RowsHead, r io.Reader, size int) error {
	z, err := zlib.NewReader(r)
	if err != nil {
		return fmt.Errorf("read rows of %s: %w: %w", l.plan.Table, binlog.ErrProtocol, err)
	}
	if err := st.pieceRows(ctx, l, e, &binlog.Body{R: z, Left: size}, 0); err != nil {
		return err
	}
	st.pass(size)
	return nil
}

// pieceRows reads rows until the body ends. Start is how much of the event stands before them.
func (st pieces) pieceRows(ctx context.Context, l *rowSchema, e *binlog.RowsHead, p *binlog.Body, start int) error {
	p.R = bufio.NewReaderSize(p.R, 32<<10)
	size := p.Left
	for p.Left > 0 {
		at, before := start+size-p.Left, p.Left
		var tooLarge bool
		var err error
		if st.vals, tooLarge, err = l.readRow(e, p, st.cfg.MaxMessage, st.vals); err != nil {
			return err
		}
		if before == p.Left {
			return binlog.Truncated("rows of " + l.plan.Table)
		}
		if err := st.row(ctx, l, uint64(at)/2, tooLarge, before-p.Left); err != nil {
			return err
		}
	}
	return nil
}

// payload handles a compressed transaction: all its events but the GTID, one after the other, as a stream.
func (st pieces) payload(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, 16<<10)
	compression, err := binlog.ParsePayloadHead(br)
	if err != nil {
		return err
	}
	var plain io.Reader = br
	switch compression {
	case binlog.CompressionNone:
	case binlog.CompressionZstd:
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
		return fmt.Errorf("read compressed transaction: its compression %d is not known: %w", compression, binlog.ErrProtocol)
	}
	st.inner = true
	err = st.payloadEvents(ctx, bufio.NewReaderSize(plain, 64<<10))
	st.inner = false
	return err
}

// payloadEvents handles the events in a compressed transaction. They have no checksum, and no place of their own.
func (st pieces) payloadEvents(ctx context.Context, r *bufio.Reader) error {
	for {
		b, err := r.Peek(binlog.HeaderSize)
		if errors.Is(err, io.EOF) && len(b) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read compressed transaction: %w", err)
		}
		h, _ := binlog.ParseHeader(b)
		if h.Size < binlog.HeaderSize {
			return binlog.Truncated("event in a compressed transaction")
		}
		if _, err := r.Discard(binlog.HeaderSize); err != nil {
			return fmt.Errorf("read compressed transaction: %w", err)
		}
		p := &binlog.Body{R: r, Left: int(h.Size) - binlog.HeaderSize}
		if int(h.Size) > binlog.BufferSize {
			if err := st.largeEvent(ctx, &h, p); err != nil {
				return err
			}
			if err := p.Discard(p.Left); err != nil {
				return err
			}
			continue
		}
		if cap(st.scratch) < p.Left {
			st.scratch = make([]byte, max(p.Left, 16<<10))
		}
		body := st.scratch[:p.Left]
		if err := p.ReadFull(body); err != nil {
			return err
		}
		if err := st.dispatch(ctx, &h, body); err != nil {
			return err
		}
	}
}
