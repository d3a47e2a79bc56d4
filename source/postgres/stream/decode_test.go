package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want []outbox.Header // nil: an error
	}{
		{`{}`, []outbox.Header{}},
		{` { } `, []outbox.Header{}},
		{`{"a":"b"}`, []outbox.Header{{Name: "a", Value: []byte("b")}}},
		{"{ \"b\" : \"\" ,\n\"a\":\"\\u00e9\\\"\\\\\"}", []outbox.Header{{Name: "b", Value: []byte{}}, {Name: "a", Value: []byte(`é"\`)}}},
		{`{"\"":1e5,"t":true,"n":null,"l":[1,{"]":"}"}],"o":{"\"":"\\"}}`, []outbox.Header{{Name: `"`, Value: []byte("1e5")}, {Name: "t", Value: []byte("true")},
			{Name: "n"}, {Name: "l", Value: []byte(`[1,{"]":"}"}]`)}, {Name: "o", Value: []byte(`{"\"":"\\"}`)}}},
		{`{"a":1,"a":2}`, []outbox.Header{{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}}},
		{`null`, []outbox.Header{}},
		{`[]`, []outbox.Header{}},
		{``, []outbox.Header{}},
		{`nul`, nil}, {`"a"`, nil}, {`{`, nil}, {`{"a"`, nil}, {`{"a":`, nil}, {`{"a":1`, nil}, {`{"a":1,}`, nil}, {`{"a":1}x`, nil},
		{`{"a":"b`, nil}, {`{"a":"b\`, nil}, {`{"a":"\x"}`, nil}, {`{"a":tru}`, nil}, {`{"a":[1}`, nil}, {`{a:1}`, nil}, {`{"a" 1}`, nil}, {"{\"a\":\"\n\"}", nil},
		{`{"a":}`, nil}, {`{"a":"\u12"}`, nil}, {`{"a":["}`, nil}, {`{"a":["\`, nil}, {`{,}`, nil}, {`{"a":1 2}`, nil},
	} {
		got, err := columns.AppendHeaders([]outbox.Header{}, []byte(test.text))
		if test.want == nil {
			if err == nil {
				t.Errorf("%s: got %v, want an error", test.text, got)
			}
			continue
		}
		if d := cmp.Diff(test.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.text, err, d)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		us   int64
		text string
	}{
		{0, "2000-01-01 00:00:00+00"}, {-1, "1999-12-31 23:59:59.999999+00"}, {500_000, "2000-01-01 00:00:00.5+00"},
		{-211813488000000000, "4714-11-24 00:00:00+00 BC"}, {9223371331199999999, "294276-12-31 23:59:59.999999+00"},
		{math.MaxInt64, "infinity"}, {math.MinInt64, "-infinity"},
	} {
		if got := string(pgrepl.AppendTimestamp(nil, test.us, true)); got != test.text {
			t.Errorf("%d: got %s, want %s", test.us, got, test.text)
		}
	}
	want := time.Date(2024, 2, 29, 12, 30, 0, 120e6, time.UTC)
	for _, text := range []string{"2024-02-29 12:30:00.12+00", "2024-02-29 12:30:00.12", "2024-02-29 18:15:00.12+05:45", "2024-02-29T12:30:00.12Z", "2024-02-29T12:30:00.12"} {
		if got, err := pgrepl.ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, n := range []int64{1709209800, 1709209800_000, 1709209800_000_000, 1709209800_000_000_000} {
		if got := columns.EpochTime(n); !got.Equal(want.Truncate(time.Second)) {
			t.Errorf("%d: got %v", n, got)
		}
	}
}

func TestLSNText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0/0", "0/1", "0/16B3748", "1/0", "FFFFFFFF/FFFFFFFF", "A/B0000000"} {
		if l, err := pgrepl.ParseLSN(text); err != nil || l.String() != text {
			t.Errorf("%s: got %s, %v", text, l, err)
		}
	}
	for _, text := range []string{"", "/", "1", "1/", "/1", "g/1", "1/100000000", "-1/1", "1/1/1", " 1/1"} {
		if l, err := pgrepl.ParseLSN(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, l)
		}
	}
}

// The messages of the protocol, for tests.

func wireMessage(typ byte, body ...[]byte) []byte {
	b := []byte{typ, 0, 0, 0, 0}
	for _, p := range body {
		b = append(b, p...)
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}

func wireLog(body ...[]byte) []byte {
	return wireMessage('d', append([][]byte{{'w'}, make([]byte, 24)}, body...)...)
}

func wireRelation(oid uint32, schema, name string, cols ...pgrepl.RelationColumn) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, oid)
	b = append(append(b, schema...), 0)
	b = append(append(b, name...), 0, 'd')
	b = binary.BigEndian.AppendUint16(b, uint16(len(cols)))
	for _, c := range cols {
		b = append(append(append(b, 0), c.Name...), 0)
		b = binary.BigEndian.AppendUint32(b, c.TypeOID)
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func wireInsert(oid uint32, vals ...columns.Value) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{'I'}, oid), 'N')
	b = binary.BigEndian.AppendUint16(b, uint16(len(vals)))
	for _, v := range vals {
		if b = append(b, v.Tag); v.Tag == 't' || v.Tag == 'b' {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v.Data))), v.Data...)
		}
	}
	return b
}

func wireBegin(final, xid uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, final)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, 1), uint32(xid))
}

func wireCommit(end uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, end-8)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, end), 1)
}

func wireKeepalive(end uint64) []byte {
	return wireMessage('d', []byte{'k'}, binary.BigEndian.AppendUint64(nil, end), make([]byte, 9))
}

var fuzzColumns = []pgrepl.RelationColumn{{Name: "id", TypeOID: 2950, Modifier: -1}, {Name: "type", TypeOID: 25, Modifier: -1},
	{Name: "payload", TypeOID: 17, Modifier: -1}, {Name: "headers", TypeOID: 3802, Modifier: -1}, {Name: "message_group", TypeOID: 23, Modifier: -1},
	{Name: "priority", TypeOID: 21, Modifier: -1},
	{Name: "available_at", TypeOID: 1184, Modifier: -1}, {Name: "created_at", TypeOID: 1114, Modifier: -1},
	{Name: "tenant", TypeOID: 1042, Modifier: -1}, {Name: "key", TypeOID: 1082, Modifier: -1}, {Name: "content_type", TypeOID: 16, Modifier: -1},
	{Name: "extra", TypeOID: 26, Modifier: -1}}

// outboxTable is table public.a, of shape tailbox.
func outboxTable() outbox.Table {
	s, _ := outbox.ShapeNamed("tailbox")
	return outbox.Table{Schema: "public", Name: "a", Shape: "tailbox", Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
}

func fuzzRows() [][]byte {
	uuid := []byte("0123456789abcdef")
	return [][]byte{
		wireInsert(7, columns.Value{Tag: 'b', Data: uuid}, columns.Value{Tag: 'b', Data: []byte("t")}, columns.Value{Tag: 'b', Data: []byte{0, 1}},
			columns.Value{Tag: 'b', Data: []byte("\x01{\"a\":\"b\"}")}, columns.Value{Tag: 'b', Data: []byte{0, 0, 0, 9}}, columns.Value{Tag: 'b', Data: []byte{255, 255}},
			columns.Value{Tag: 'b', Data: make([]byte, 8)}, columns.Value{Tag: 'b', Data: make([]byte, 8)}, columns.Value{Tag: 'b', Data: []byte("me  ")},
			columns.Value{Tag: 'b', Data: make([]byte, 4)}, columns.Value{Tag: 'b', Data: []byte{1}}, columns.Value{Tag: 'b', Data: make([]byte, 4)}),
		wireInsert(7, columns.Value{Tag: 't', Data: []byte("x")}, columns.Value{Tag: 't', Data: []byte("t")}, columns.Value{Tag: 't', Data: []byte(`\x00ff`)},
			columns.Value{Tag: 't', Data: []byte(`{"a":"b"}`)}, columns.Value{Tag: 't', Data: []byte("9")}, columns.Value{Tag: 't', Data: []byte("-1")},
			columns.Value{Tag: 't', Data: []byte("2024-01-02 03:04:05+00")}, columns.Value{Tag: 't', Data: []byte("infinity")}, columns.Value{Tag: 't'}, columns.Value{Tag: 'n'},
			columns.Value{Tag: 't', Data: []byte("t")}, columns.Value{Tag: 'u'}),
	}
}

// FuzzDecode gives the decoder announcements of tables and rows that no server would send.
func FuzzDecode(f *testing.F) {
	rel := wireRelation(7, "public", "a", fuzzColumns...)
	for _, row := range fuzzRows() {
		f.Add(rel[1:], row[1:], 1000)
		f.Add(rel[1:], row[1:], 3)
		f.Add(rel[1:len(rel)-5], row[1:len(row)-3], 10)
	}
	f.Fuzz(func(t *testing.T, relation, insert []byte, maxMessage int) {
		m, err := pgrepl.ParseRelation(relation)
		if err != nil {
			return
		}
		cols := make([]catalog.Column, len(m.Columns))
		for i, c := range m.Columns {
			k, _ := catalog.BuiltinKind(c.TypeOID)
			cols[i] = catalog.NewColumn(c.Name, k, -1)
		}
		table := outboxTable()
		table.Fields = []string{"extra"}
		p, err := catalog.NewPlan(&table, cols)
		if err != nil {
			return
		}
		_, tuple, err := pgrepl.ParseInsert(insert)
		if err != nil {
			return
		}
		vals, err := catalog.ParseTuple(p, tuple, nil)
		if err != nil {
			return
		}
		d := columns.Decoder{MaxMessage: source.MaxMessage(maxMessage)}
		msg := d.NewMessage()
		if err := d.Decode(&p.Plan, vals, false, msg); err != nil {
			if !errors.Is(err, source.ErrStop) {
				t.Errorf("decode returned %v", err)
			}
			return
		}
		if msg.ID == "" && msg.Fault == nil || msg.Table != "public.a" { // without an id it has a fault, and gets a stand-in
			t.Errorf("message %+v", msg)
		}
		if len(msg.Payload) > d.MaxMessage {
			t.Errorf("payload of %d bytes, max_message %d", len(msg.Payload), d.MaxMessage)
		}
	})
}

// bytesConn is a connection that sends some bytes and ends.
type bytesConn struct {
	net.Conn
	b     []byte
	piece int
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(len(c.b), c.piece)])
	c.b = c.b[n:]
	return n, nil
}

func (c *bytesConn) SetReadDeadline(time.Time) error { return nil }

// fuzzStream reads bytes as a stream, with a small buffer, so that most rows are larger than it.
func fuzzStream(b []byte, piece, buffer int, emit source.Emit) error {
	table := outboxTable()
	src := New(session.Config{Config: source.Config{Tables: []outbox.Table{table}, URL: "postgres://127.0.0.1:1/none?connect_timeout=1", MaxMessage: 3000}, Messages: "tailbox"})
	info := &catalog.Table{Table: table, OID: 7, Permanent: true}
	conn := &bytesConn{b: b, piece: piece}
	st := &stream{
		cfg: &src.cfg, source: src, wire: pgrepl.NewReaderSize(conn, buffer), emit: emit, binary: true,
		status:    newStatusWriter(conn, 0, src, &standbyGate{}),
		watch:     &watch{cfg: &src.cfg, cat: &catalog.View{Tables: []*catalog.Table{info}, ByName: map[string]*catalog.Table{`"public"."a"`: info}, ByOID: map[uint32]*catalog.Table{7: info}}},
		relations: map[uint32]*plannedRelation{}, dec: columns.Decoder{MaxMessage: src.cfg.MaxMessage},
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // there is no server to ask
	return st.read(ctx)
}
