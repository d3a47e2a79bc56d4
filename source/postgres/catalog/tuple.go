package catalog

import (
	"encoding/binary"
	"fmt"

	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// ParseTuple reads a row into vals, which point into b. Columns that the plan does not want are left out.
func ParseTuple(p *Plan, b []byte, vals []columns.Value) ([]columns.Value, error) {
	vals = vals[:0]
	if len(b) < 2 {
		return vals, pgrepl.Truncated("row")
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n != len(p.Cols) {
		return vals, fmt.Errorf("read row of %s: %d columns, but its relation has %d: %w", p.Table, n, len(p.Cols), pgrepl.ErrProtocol)
	}
	for i := range n {
		if len(b) < 1 {
			return vals, pgrepl.Truncated("row")
		}
		tag := b[0]
		b = b[1:]
		switch tag {
		case 'n', 'u':
			vals = append(vals, columns.Value{Tag: tag})
			continue
		case 't', 'b':
		default:
			return vals, fmt.Errorf("read row of %s: column %s has the unknown tag %q: %w", p.Table, p.Cols[i].Name, tag, pgrepl.ErrProtocol)
		}
		if len(b) < 4 {
			return vals, pgrepl.Truncated("row")
		}
		size := int(binary.BigEndian.Uint32(b))
		if size > len(b)-4 {
			return vals, pgrepl.Truncated("row")
		}
		if p.Wanted[i] {
			vals = append(vals, columns.Value{Tag: tag, Data: b[4 : 4+size : 4+size]})
		} else {
			vals = append(vals, columns.Value{})
		}
		b = b[4+size:]
	}
	if len(b) > 0 {
		return vals, fmt.Errorf("read row of %s: %d bytes too many: %w", p.Table, len(b), pgrepl.ErrProtocol)
	}
	return vals, nil
}
