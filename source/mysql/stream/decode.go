package stream

import (
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/catalog"
)

// parseRow reads the values of one row into vals, and returns where the next one begins. They point into b.
func (l *rowSchema) parseRow(e *binlog.RowsHead, b []byte, vals []columns.Value) (_ []columns.Value, next int, err error) {
	nulls := (e.Count + 7) / 8
	if len(b) < nulls {
		return vals, 0, binlog.Truncated("row of " + l.plan.Table)
	}
	at, bit := nulls, 0
	vals = vals[:0]
	all := e.Count == len(l.wire)
	for i := range l.wire {
		if !all && !e.Has(i) {
			vals = append(vals, absent(&l.plan.Cols[i]))
			continue
		}
		null := b[bit>>3]&(1<<(bit&7)) != 0
		bit++
		if null {
			vals = append(vals, columns.Value{Tag: columns.Null})
			continue
		}
		w := &l.wire[i]
		n := w.Fixed
		if w.Prefix > 0 {
			if at+w.Prefix > len(b) {
				return vals, 0, binlog.Truncated("row of " + l.plan.Table)
			}
			n = 0
			for k := w.Prefix - 1; k >= 0; k-- {
				n = n<<8 | int(b[at+k])
			}
			at += w.Prefix
		}
		if n > len(b)-at {
			return vals, 0, binlog.Truncated("row of " + l.plan.Table)
		}
		vals = append(vals, columns.Value{Tag: catalog.TagLog, Data: b[at : at+n]})
		at += n
	}
	return vals, at, nil
}

// absent is a column that the log left out: its default.
func absent(c *catalog.Column) columns.Value {
	if c.NullDefault {
		return columns.Value{Tag: columns.Null}
	}
	return columns.Value{Tag: catalog.TagAbsent}
}

// readRow reads one row in pieces, never more of it into memory than max: once it turns out to be larger, values that are not
// small are dropped.
func (l *rowSchema) readRow(e *binlog.RowsHead, p *binlog.Body, limit int, vals []columns.Value) (_ []columns.Value, tooLarge bool, err error) {
	head, err := p.Take((e.Count + 7) / 8)
	if err != nil {
		return vals, false, err
	}
	nulls := append([]byte(nil), head...)
	vals = vals[:0]
	total, bit := 0, 0
	for i := range l.wire {
		if !e.Has(i) {
			vals = append(vals, absent(&l.plan.Cols[i]))
			continue
		}
		null := nulls[bit>>3]&(1<<(bit&7)) != 0
		bit++
		if null {
			vals = append(vals, columns.Value{Tag: columns.Null})
			continue
		}
		w := &l.wire[i]
		n := w.Fixed
		if w.Prefix > 0 {
			b, err := p.Take(w.Prefix)
			if err != nil {
				return vals, false, err
			}
			u, _ := binlog.LittleEndian(b) // one to four bytes
			n = int(u)
		}
		wanted := l.plan.Wanted[i]
		if wanted && !l.plan.Cols[i].Kind.Fixed() {
			total += n
			tooLarge = tooLarge || total > limit
		}
		switch {
		case wanted && tooLarge && n > columns.MaxSmall && l.plan.Grouped(i):
			v := columns.Value{Tag: catalog.TagLog, Owned: true, Data: make([]byte, columns.MaxSmall+1)}
			if err = p.ReadFull(v.Data); err == nil {
				err = p.Discard(n - len(v.Data))
			}
			vals = append(vals, v)
		case !wanted, tooLarge && n > columns.MaxSmall:
			vals = append(vals, columns.Value{Tag: columns.Dropped})
			err = p.Discard(n)
		default:
			v := columns.Value{Tag: catalog.TagLog, Owned: true, Data: make([]byte, n)}
			err = p.ReadFull(v.Data)
			vals = append(vals, v)
		}
		if err != nil {
			return vals, false, err
		}
	}
	return vals, tooLarge, nil
}
