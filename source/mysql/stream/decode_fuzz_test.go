package stream

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// FuzzRows holds that no bytes of a server make the decoder or the readers of statements panic: the first byte chooses what the others are
// taken for.
func FuzzRows(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x00\x00\x00\x00\x01\x00\x01a\x00\x06outbox\x00\x03\x0f\xfc\xf5\x04\x50\x00\x02\x04\x00"))
	shape, _ := outbox.ShapeNamed("debezium")
	info := &catalog.Table{Table: outbox.Table{Schema: "a", Name: "outbox", Shape: "debezium", Columns: shape.Columns}}
	for _, name := range []string{"id", "type", "aggregatetype", "aggregateid", "payload"} {
		info.Cols = append(info.Cols, catalog.Declared{Column: catalog.Column{Name: name, Kind: catalog.KindText}, DataType: "varchar"})
	}
	cat := &knownTables{tables: []*catalog.Table{info}, byName: map[string]*catalog.Table{"a.outbox": info}, charsets: map[uint64]string{45: "utf8mb4", 63: "binary"}}
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		rest := b[1:]
		switch b[0] % 3 {
		case 0:
			t, err := binlog.ParseTableMap(rest)
			if err != nil {
				return
			}
			l, err := cat.newRowSchema(info, t)
			if err != nil {
				return
			}
			e, start, err := binlog.ParseRowsHead(rest, len(l.wire), b[1]%2 == 0)
			if err != nil {
				return
			}
			if vals, _, err := l.parseRow(&e, rest[start:], nil); err == nil {
				d := columns.Decoder{MaxMessage: 1 << 20}
				_ = d.Decode(&l.plan.Plan, vals, false, &outbox.Message{})
			}
		case 1:
			for k := catalog.KindText; k <= catalog.KindTimestamp; k++ {
				v := columns.Value{Tag: catalog.TagLog, Data: rest[2:]}
				c := catalog.Column{Kind: k, Digits: int(int8(rest[0])), Scale: int(rest[1]), Bytes: 4, Labels: []string{"a"}}
				_, _ = columns.AppendText(nil, &c, &v)
				_, _ = columns.Integer(&c, &v)
				_, _ = c.Time(&v)
			}
		case 2:
			bare := sqltext.Bare(rest)
			_, from := sqltext.Verb(bare)
			_, _, _ = sqltext.Target(from)
			_, _ = parseResume(source.Resume(rest))
		}
	})
}
