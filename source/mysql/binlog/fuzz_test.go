package binlog

import (
	"testing"
	"time"
)

// FuzzEvents holds that no bytes of a server make the parsers panic: the first byte chooses what the others are parsed as.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x00\x00\x00\x00\x01\x00\x01a\x00\x06outbox\x00\x03\x0f\xfc\xf5\x04\x50\x00\x02\x04\x00"))
	f.Add([]byte("\x01\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x03\x00a"))
	f.Add([]byte("\x02\x80\x00\x00\x01\x05\x02"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		rest := b[1:]
		h := Header{Time: uint32(time.Now().Unix()), Type: EventGTID}
		switch b[0] % 8 {
		case 0:
			t, err := ParseTableMap(rest)
			if err != nil {
				return
			}
			if e, _, err := ParseRowsHead(rest, len(t.Columns), b[1]%2 == 0); err == nil && len(t.Columns) > 0 {
				_ = e.Has(len(t.Columns) - 1)
			}
			for i := range t.Columns {
				_, _ = t.Collation(i)
			}
		case 1:
			_, _ = AppendJSON(nil, rest)
		case 2:
			_, _ = AppendDecimal(nil, rest[2:], int(rest[0]), int(rest[1]))
		case 3:
			digits := int(int8(rest[0]))
			_, _ = AppendDatetime(nil, rest[1:], digits)
			_, _ = AppendTimestamp(nil, rest[1:], digits)
			_, _ = AppendTime(nil, rest[1:], digits)
			_, _ = AppendDate(nil, rest[1:])
			_, _ = AppendUUID(nil, rest[1:])
		case 4:
			_, _ = ParseGTID(&h, rest, nil)
			h.Type = EventTaggedGTID
			_, _ = ParseGTID(&h, rest, nil)
			_, _ = ParseMariaDBGTID(&h, rest)
		case 5:
			_, _ = ParsePreviousGTIDs(rest)
			_, _ = ParseGTIDList(rest)
		case 6:
			for _, typ := range []byte{EventQuery, EventQueryCompressed, EventExecuteLoad} {
				_, _, _ = ParseQuery(typ, rest)
			}
			_, _ = ParseRotate(rest)
		case 7:
			_ = ParseError(rest)
			_, _ = ParseGTIDSet(string(rest), rest[0]%2 == 0)
		}
	})
}
