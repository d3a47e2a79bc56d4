package sink_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

func TestAppendLine(t *testing.T) {
	t.Parallel()
	position := outbox.Position{Log: 1, Commit: 0xabc, N: 2}
	const tail = `,"position":"00000001-0000000000000abc-00000002","attempt":3,"sink":"out"}` + "\n"
	tests := []struct {
		name string
		d    sink.Delivery
		want string
	}{
		{
			name: "everything",
			d: sink.Delivery{Topic: "orders", Key: []byte("k1"), Value: []byte(`{"a": 1}`),
				Headers: []outbox.Header{{Name: "eventType", Value: []byte("Placed")}},
				Message: &outbox.Message{ID: "1", Type: "Placed", Group: "g", Headers: []outbox.Header{
					{Name: "h", Value: []byte("é\"")}, {Name: "h", Value: nil}, {Name: "bin", Value: []byte{0xff}}}}},
			want: `{"id":"1","type":"Placed","topic":"orders","group":"g","key":"k1",` +
				`"headers":{"eventType":"Placed","h":"é\"","h":null,"bin":{"base64":"/w=="}},"payload":{"a": 1}`,
		},
		{
			name: "no group, no key, tombstone",
			d:    sink.Delivery{Message: &outbox.Message{ID: "1"}},
			want: `{"id":"1","type":"","topic":"","group":null,"key":null,"headers":{},"payload":null`,
		},
		{
			name: "text",
			d:    sink.Delivery{Message: &outbox.Message{ID: "1"}, Value: []byte("two\nlines"), Key: []byte{}},
			want: `{"id":"1","type":"","topic":"","group":null,"key":"","headers":{},"payload":"two\nlines"`,
		},
		{
			name: "empty",
			d:    sink.Delivery{Message: &outbox.Message{ID: "1"}, Value: []byte{}},
			want: `{"id":"1","type":"","topic":"","group":null,"key":null,"headers":{},"payload":""`,
		},
		{
			name: "binary",
			d:    sink.Delivery{Message: &outbox.Message{ID: "1"}, Value: []byte{0, 0xff}, Key: []byte{0xfe}},
			want: `{"id":"1","type":"","topic":"","group":null,"key_base64":"/g==","headers":{},"payload_base64":"AP8="`,
		},
		{
			name: "JSON on several lines",
			d:    sink.Delivery{Message: &outbox.Message{ID: "1"}, Value: []byte("{\r\n \"a\" : \"x  y\\n\" }\n")},
			want: `{"id":"1","type":"","topic":"","group":null,"key":null,"headers":{},"payload":{"a":"x  y\n"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.d.Message.Position = position
			test.d.Attempt = 3
			got := string(sink.AppendLine(nil, &test.d, "out"))
			if want := test.want + tail; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if !json.Valid([]byte(got)) || strings.Count(got, "\n") != 1 {
				t.Errorf("not one line of JSON: %q", got)
			}
		})
	}
}

func FuzzIsJSON(f *testing.F) {
	for _, s := range []string{``, ` `, `{}`, `[]`, `{"a":[1,-2.5e+3,true,false,null,"\u00e9\n"]}`, `{"a":1,}`, `[1,]`, `01`, `-`, `1.`,
		`1e`, `"\x"`, `"\u12g4"`, "\"\n\"", "\"\xff\"", `{"a"}`, `{"a":}`, `{1:2}`, `nul`, `truex`, `"a`, `"\`, `[`, `{`, `1 2`, "\u00a0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		if got, want := sink.IsJSON(v), json.Valid(v) && utf8.Valid(v); got != want {
			t.Errorf("IsJSON(%q) = %v, want %v", v, got, want)
		}
	})
}

func TestIsJSONDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{9999, 10000, 10001, 5_000_000} {
		v := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := sink.IsJSON(v), depth <= 10000; got != want {
			t.Errorf("IsJSON of depth %d = %v, want %v", depth, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\x1f\"\\\n\r\t\u2028é\xff\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		b := sink.AppendString([]byte("x"), s)
		var got string
		if err := json.Unmarshal(b[1:], &got); err != nil {
			t.Fatalf("AppendString(%q) = %s: %v", s, b, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Errorf("AppendString(%q) reads back as %q", s, got)
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	d := &sink.Delivery{Topic: "orders", Key: []byte("customer-17"), Value: []byte(`{"order":12345,"lines":[{"sku":"A-1","quantity":2},` +
		`{"sku":"B-2","quantity":1}],"total":"129.90","currency":"EUR","note":"leave at the door","paid":true,"address":{"zip":"10115"}}`),
		Attempt: 1, Message: &outbox.Message{ID: "0198c0de-0000-7000-8000-000000000001", Type: "OrderPlaced", Group: "customer-17"}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = sink.AppendLine(buf[:0], d, "out")
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkIsJSON(b *testing.B) {
	v := []byte(`{"order":12345,"lines":[{"sku":"A-1","quantity":2},{"sku":"B-2","quantity":1}],"total":"129.90","currency":"EUR","note":"leave at the door"}`)
	b.SetBytes(int64(len(v)))
	for b.Loop() {
		if !sink.IsJSON(v) {
			b.Fatal("not JSON")
		}
	}
}
