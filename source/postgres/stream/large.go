package stream

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// large handles a message that is larger than the read buffer: piece by piece, with each value read into its own place, and
// never more of it in memory than max_message.
func (st *stream) large(ctx context.Context, typ byte, size int) error {
	if typ != 'd' || size < pgrepl.XLogDataSize+1 {
		return fmt.Errorf("read replication stream: message %q of %d bytes: %w", typ, size, pgrepl.ErrProtocol)
	}
	if err := st.wire.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := st.wire.Discard(5); err != nil {
		return err
	}
	head, err := st.wire.Need(pgrepl.XLogDataSize + 1)
	if err != nil {
		return err
	}
	if head[0] != 'w' {
		return fmt.Errorf("read replication stream: message %q of %d bytes: %w", head[0], size, pgrepl.ErrProtocol)
	}
	st.pings = 0
	kind := head[pgrepl.XLogDataSize]
	size -= len(head)
	if i, ok := dropped(kind); ok {
		st.ignored[i]++
		return st.wire.Discard(size)
	}
	if kind == 'M' {
		return st.largeLogMessage(ctx, size)
	}
	if kind != 'I' {
		return fmt.Errorf("read replication stream: log message %q of %d bytes: %w", kind, size, pgrepl.ErrProtocol)
	}
	return st.largeInsert(ctx, size)
}

func (st *stream) largeInsert(ctx context.Context, size int) error {
	const headLength = 4 + 1 + 2
	if size < headLength {
		return pgrepl.Truncated("insert")
	}
	b, err := st.wire.Need(headLength)
	if err != nil {
		return err
	}
	oid, _, err := pgrepl.ParseInsert(b)
	if err != nil {
		return err
	}
	columns := int(binary.BigEndian.Uint16(b[5:]))
	rel, pos, err := st.row(ctx, oid)
	if err != nil {
		return err
	}
	if rel.plan == nil {
		return st.wire.Discard(size - headLength)
	}
	if columns != len(rel.plan.Cols) {
		return fmt.Errorf("read row of %s: %d columns, but its relation has %d: %w", rel.plan.Table, columns, len(rel.plan.Cols), pgrepl.ErrProtocol)
	}
	tooLarge, err := st.largeTuple(rel.plan, size-headLength)
	if err != nil {
		return err
	}
	err = st.decoded(ctx, rel.plan, pos, tooLarge, size)
	clear(st.vals) // or they would keep the row in memory
	return err
}

// largeTuple reads the values of a row of size bytes into st.vals. Once the row turns out to be too large, values that are
// not small are dropped.
func (st *stream) largeTuple(p *catalog.Plan, size int) (tooLarge bool, err error) {
	st.vals = st.vals[:0]
	total := 0
	for i := range p.Cols {
		b, err := st.take(&size, 1)
		if err != nil {
			return false, err
		}
		v := columns.Value{Tag: b[0]}
		switch v.Tag {
		case 'n', 'u':
			st.vals = append(st.vals, v)
			continue
		case 't', 'b':
		default:
			return false, fmt.Errorf("read row of %s: column %s has the unknown tag %q: %w", p.Table, p.Cols[i].Name, v.Tag, pgrepl.ErrProtocol)
		}
		if b, err = st.take(&size, 4); err != nil {
			return false, err
		}
		n := int(binary.BigEndian.Uint32(b))
		if n > size {
			return false, pgrepl.Truncated("row")
		}
		size -= n
		if p.Wanted[i] {
			total += catalog.SizeOf(p.Cols[i].Kind, v.Tag, n)
			tooLarge = tooLarge || total > st.dec.MaxMessage
			v, err = st.largeValue(p, i, v.Tag, n, tooLarge)
		} else {
			v, err = columns.Value{}, st.wire.Discard(n)
		}
		if err != nil {
			return false, err
		}
		st.vals = append(st.vals, v)
	}
	if size != 0 {
		return false, fmt.Errorf("read row of %s: %d bytes too many: %w", p.Table, size, pgrepl.ErrProtocol)
	}
	return tooLarge, nil
}

// take consumes n of the bytes that are left of a message.
func (st *stream) take(left *int, n int) ([]byte, error) {
	if *left < n {
		return nil, pgrepl.Truncated("row")
	}
	*left -= n
	return st.wire.Need(n)
}

// largeValue reads one value of n bytes into memory of its own, or drops it.
func (st *stream) largeValue(p *catalog.Plan, i int, tag byte, n int, tooLarge bool) (columns.Value, error) {
	switch {
	case n <= columns.MaxSmall:
		v := columns.Value{Tag: tag, Owned: true, Data: st.dec.Alloc(n)}
		return v, st.wire.ReadFull(v.Data)
	case tooLarge && p.Grouped(i):
		v := columns.Value{Tag: tag, Owned: true, Data: make([]byte, columns.MaxSmall+1)}
		if err := st.wire.ReadFull(v.Data); err != nil {
			return v, err
		}
		return v, st.wire.Discard(n - len(v.Data))
	case tooLarge:
		return columns.Value{Tag: columns.Dropped}, st.wire.Discard(n)
	case p.Cols[i].Kind == catalog.KindBytea && tag == 't':
		return st.largeHex(n)
	}
	v := columns.Value{Tag: tag, Owned: true, Data: make([]byte, n)}
	return v, st.wire.ReadFull(v.Data)
}

// largeHex reads the text form of a bytea as its bytes.
func (st *stream) largeHex(n int) (columns.Value, error) {
	prefix, err := st.wire.Need(2)
	if err != nil {
		return columns.Value{}, err
	}
	if string(prefix) != `\x` || n%2 != 0 {
		return columns.Value{}, fmt.Errorf("read bytea: it is not in hex form: %w", pgrepl.ErrProtocol)
	}
	v := columns.Value{Tag: 'b', Owned: true, Data: make([]byte, (n-2)/2)}
	for dst := v.Data; len(dst) > 0; {
		m := min(len(dst), st.wire.Size()/4)
		b, err := st.wire.Need(2 * m)
		if err != nil {
			return columns.Value{}, err
		}
		if _, err := hex.Decode(dst[:m], b); err != nil {
			return columns.Value{}, fmt.Errorf("read bytea: it is not in hex form: %w", pgrepl.ErrProtocol)
		}
		dst = dst[m:]
	}
	return v, nil
}
