package mysql

import (
	"fmt"
	"io"

	"github.com/tailbox/tailbox/source/columns"
)

// A rowsEvent is the head of an event with rows, whose layout is known.
type rowsEvent struct {
	tableID uint64
	// present has a bit for each column that the rows have; bits are the number of columns that have one set.
	present []byte
	bits    int
}

// parseRowsHead reads the head, and returns where the rows begin. Version 2 has more in it.
func parseRowsHead(b []byte, columns int, v2 bool) (e rowsEvent, start int, err error) {
	r := reading{b: b}
	e.tableID = r.uint(6)
	r.take(2)
	if v2 {
		if extra := int(r.uint16()); extra > 2 {
			r.take(extra - 2)
		}
	}
	if n := r.lenenc(); !r.bad && n != uint64(columns) {
		return e, 0, fmt.Errorf("read rows: %d columns, but their table has %d: %w", n, columns, errProtocol)
	}
	e.present = r.take((columns + 7) / 8)
	if r.bad {
		return e, 0, truncated("rows")
	}
	for i := range columns {
		if e.has(i) {
			e.bits++
		}
	}
	return e, len(b) - len(r.b), nil
}

func (e *rowsEvent) has(i int) bool { return e.present[i/8]&(1<<(i%8)) != 0 }

// parseRow reads the values of one row into vals, and returns where the next one begins. They point into b.
func (l *layout) parseRow(e *rowsEvent, b []byte, vals []value) (_ []value, next int, err error) {
	nulls := (e.bits + 7) / 8
	if len(b) < nulls {
		return vals, 0, truncated("row of " + l.plan.Table)
	}
	at, bit := nulls, 0
	vals = vals[:0]
	all := e.bits == len(l.wire)
	for i := range l.wire {
		if !all && !e.has(i) {
			vals = append(vals, absent(&l.plan.cols[i]))
			continue
		}
		null := b[bit>>3]&(1<<(bit&7)) != 0
		bit++
		if null {
			vals = append(vals, value{tag: tagNull})
			continue
		}
		w := &l.wire[i]
		n := w.fixed
		if w.prefix > 0 {
			if at+w.prefix > len(b) {
				return vals, 0, truncated("row of " + l.plan.Table)
			}
			n = 0
			for k := w.prefix - 1; k >= 0; k-- {
				n = n<<8 | int(b[at+k])
			}
			at += w.prefix
		}
		if n > len(b)-at {
			return vals, 0, truncated("row of " + l.plan.Table)
		}
		vals = append(vals, value{tag: tagLog, data: b[at : at+n]})
		at += n
	}
	return vals, at, nil
}

// absent is a column that the log left out: its default.
func absent(c *column) value {
	if c.nullDefault {
		return value{tag: tagNull}
	}
	return value{tag: tagAbsent}
}

// A pieces reads the body of an event that is not in memory as a whole.
type pieces struct {
	r     io.Reader
	left  int // of the body
	small []byte
}

// take returns the next n bytes, which are few, until the next call.
func (p *pieces) take(n int) ([]byte, error) {
	if cap(p.small) < n {
		p.small = make([]byte, max(n, 64))
	}
	return p.small[:n], p.full(p.small[:n])
}

func (p *pieces) full(b []byte) error {
	if len(b) > p.left {
		return truncated("event")
	}
	p.left -= len(b)
	if _, err := io.ReadFull(p.r, b); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	return nil
}

func (p *pieces) discard(n int) error {
	if n > p.left {
		return truncated("event")
	}
	p.left -= n
	if _, err := io.CopyN(io.Discard, p.r, int64(n)); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	return nil
}

// readRow reads one row in pieces, never more of it into memory than max: once it turns out to be larger, values that are not
// small are dropped.
func (l *layout) readRow(e *rowsEvent, p *pieces, limit int, vals []value) (_ []value, tooLarge bool, err error) {
	head, err := p.take((e.bits + 7) / 8)
	if err != nil {
		return vals, false, err
	}
	nulls := append([]byte(nil), head...)
	vals = vals[:0]
	total, bit := 0, 0
	for i := range l.wire {
		if !e.has(i) {
			vals = append(vals, absent(&l.plan.cols[i]))
			continue
		}
		null := nulls[bit>>3]&(1<<(bit&7)) != 0
		bit++
		if null {
			vals = append(vals, value{tag: tagNull})
			continue
		}
		w := &l.wire[i]
		n := w.fixed
		if w.prefix > 0 {
			b, err := p.take(w.prefix)
			if err != nil {
				return vals, false, err
			}
			u, _ := littleEndian(b) // one to four bytes
			n = int(u)
		}
		wanted := l.plan.Wanted[i]
		if wanted && !l.plan.cols[i].kind.fixed() {
			total += n
			tooLarge = tooLarge || total > limit
		}
		switch {
		case wanted && tooLarge && n > columns.MaxSmall && l.plan.Grouped(i):
			v := value{tag: tagLog, owned: true, data: make([]byte, columns.MaxSmall+1)}
			if err = p.full(v.data); err == nil {
				err = p.discard(n - len(v.data))
			}
			vals = append(vals, v)
		case !wanted, tooLarge && n > columns.MaxSmall:
			vals = append(vals, value{tag: tagDropped})
			err = p.discard(n)
		default:
			v := value{tag: tagLog, owned: true, data: make([]byte, n)}
			err = p.full(v.data)
			vals = append(vals, v)
		}
		if err != nil {
			return vals, false, err
		}
	}
	return vals, tooLarge, nil
}
