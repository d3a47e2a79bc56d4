package binlog

import (
	"fmt"
	"io"
)

// A RowsHead is the head of an event with rows.
type RowsHead struct {
	tableID uint64
	// present has a bit for each column of the table, set if the rows have the column. Count is the number of those.
	present []byte
	Count   int
}

// ParseRowsHead reads the head of an event of a table with so many columns, and returns where its rows begin. Heads of version 2 are longer.
func ParseRowsHead(b []byte, columns int, v2 bool) (e RowsHead, start int, err error) {
	r := reading{b: b}
	e.tableID = r.uint(6)
	r.take(2)
	if v2 {
		if extra := int(r.uint16()); extra > 2 {
			r.take(extra - 2)
		}
	}
	if n := r.lenenc(); !r.bad && n != uint64(columns) {
		return e, 0, fmt.Errorf("read rows: %d columns, but their table has %d: %w", n, columns, ErrProtocol)
	}
	e.present = r.take((columns + 7) / 8)
	if r.bad {
		return e, 0, Truncated("rows")
	}
	for i := range columns {
		if e.Has(i) {
			e.Count++
		}
	}
	return e, len(b) - len(r.b), nil
}

// Has reports whether the rows have the column i.
func (e *RowsHead) Has(i int) bool { return e.present[i/8]&(1<<(i%8)) != 0 }

// A Body reads the body of an event that is too large to be in memory as a whole.
type Body struct {
	R     io.Reader
	Left  int // of the body
	small []byte
}

// Take returns the next n bytes, which must be few. They are valid until the next call.
func (p *Body) Take(n int) ([]byte, error) {
	if cap(p.small) < n {
		p.small = make([]byte, max(n, 64))
	}
	return p.small[:n], p.ReadFull(p.small[:n])
}

// ReadFull fills b.
func (p *Body) ReadFull(b []byte) error {
	if len(b) > p.Left {
		return Truncated("event")
	}
	p.Left -= len(b)
	if _, err := io.ReadFull(p.R, b); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	return nil
}

// Discard drops the next n bytes.
func (p *Body) Discard(n int) error {
	if n > p.Left {
		return Truncated("event")
	}
	p.Left -= n
	if _, err := io.CopyN(io.Discard, p.R, int64(n)); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	return nil
}

// RowsKind classifies events with rows. Ignored is "" for an insert, else "update" or "delete". Compressed and v2 are told of inserts
// only: MariaDB's compressed rows, and the longer head of version 2.
func RowsKind(typ byte) (ignored string, compressed, v2 bool) {
	switch typ {
	case EventWriteRows:
		return "", false, true
	case EventWriteRowsV1:
		return "", false, false
	case EventWriteRowsZ:
		return "", true, false
	case EventWriteRowsZ2:
		return "", true, true
	case EventUpdateRows, EventUpdateRowsV1, EventUpdateRowsZ, EventUpdateRowsZ2, EventPartialUpdate:
		return "update", false, false
	}
	return "delete", false, false
}

// TableIDSize is the length of the table's number, with which an event with rows begins.
const TableIDSize = 6
