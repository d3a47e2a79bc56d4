package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

const huge = 10 << 20

// A Row is one that an application should not write, by the parts of a message. A part that is missing is NULL.
type Row struct {
	Name    string
	Text    map[string]string // by part: id, type, topic, group, key, tenant
	Headers []byte            // JSON
	Payload []byte
	// Dead is what the reason of its dead letter says. If it is empty, the row may be delivered, too.
	Dead string
}

// bounds of the texts. A text that is larger makes a dead letter.
func bounds() map[string]int {
	return map[string]int{"id": outbox.MaxIndexed, "type": outbox.MaxIndexed, "tenant": outbox.MaxIndexed,
		"group": outbox.MaxGroup, "key": outbox.MaxGroup, "topic": outbox.MaxGroup}
}

// Rows makes the hostile rows of one round, the same for the same random numbers. Names are the same in each round. Many is how many rows
// have a type, a topic and a group of their own. Values of 10 MiB are made when yield is called, and can be collected when it returns.
func Rows(r *rand.Rand, many int, yield func(Row) error) error {
	at := r.Uint32()
	give := func(row Row) error {
		for part, text := range map[string]string{"type": "T", "group": row.Name, "id": fmt.Sprintf("%s-%08x", row.Name, at)} {
			if _, set := row.Text[part]; !set {
				row.set(part, text)
			}
		}
		if row.Payload == nil {
			row.Payload = []byte("x")
		}
		return yield(row)
	}
	for _, rows := range []func(*rand.Rand, func(Row) error) error{sizes, headers, characters, payloads} {
		if err := rows(r, give); err != nil {
			return err
		}
	}
	for i := range many {
		row := Row{Name: fmt.Sprintf("many-%d", i)}
		own := fmt.Sprintf("own-%d-%08x", i, r.Uint32())
		row.set("type", own)
		row.set("topic", own)
		row.set("group", own)
		if err := give(row); err != nil {
			return err
		}
	}
	return nil
}

func (row *Row) set(part, text string) {
	if row.Text == nil {
		row.Text = map[string]string{}
	}
	row.Text[part] = text
}

// sizes gives each text at 0, at its bound, one above it, and at 10 MiB.
func sizes(r *rand.Rand, give func(Row) error) error {
	for part, bound := range sorted(bounds()) {
		for _, size := range []int{0, bound, bound + 1, huge} {
			row := Row{Name: fmt.Sprintf("%s-of-%d", part, size)}
			row.set(part, text(r, size))
			if size > bound {
				row.Dead = "column " + part
			}
			if err := give(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// text is random and cannot be compressed much, so that a database does not make it small.
func text(r *rand.Rand, size int) string {
	letters := make([]byte, size)
	for i := range letters {
		letters[i] = byte('a' + r.IntN(26))
	}
	return string(letters)
}

func headers(r *rand.Rand, give func(Row) error) error {
	numbered := func(n int) []byte {
		var b bytes.Buffer
		b.WriteByte('{')
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"h%d":%d`, i, r.IntN(10))
		}
		b.WriteByte('}')
		return b.Bytes()
	}
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for _, row := range []Row{
		{Name: "headers-0", Headers: numbered(0)},
		{Name: "headers-100", Headers: numbered(outbox.MaxHeaders)},
		{Name: "headers-101", Headers: numbered(outbox.MaxHeaders + 1), Dead: "headers"},
		{Name: "headers-100000", Headers: numbered(100_000), Dead: "headers"},
		{Name: "header-name-long", Headers: object(text(r, outbox.MaxHeaderName+1), "x"), Dead: "header"},
		{Name: "header-value-huge", Headers: object("h", text(r, huge)), Dead: "headers"},
		{Name: "header-name-empty", Headers: object("", "x")},
		{Name: "header-names-by-case", Headers: []byte(`{"X-Name":"1","x-name":"2","X-NAME":"3"}`)},
		{Name: "header-lines", Headers: object("h", "1\r\nHost: elsewhere\r\n\r\nGET / HTTP/1.1")},
		{Name: "header-name-lines", Headers: object("h\r\nHost", "elsewhere")},
		{Name: "header-framing", Headers: []byte(`{"Content-Length":"0","Transfer-Encoding":"chunked","Connection":"close","Host":"elsewhere"}`)},
		{Name: "header-ours", Headers: []byte(`{"id":"other","tailbox-position":"0/0","tailbox-attempt":"x"}`)},
		{Name: "header-numbers", Headers: []byte(`{"a":1e400,"b":-0,"c":9223372036854775808,"d":0.1e-300,"e":18446744073709551616}`)},
		{Name: "header-deep", Headers: []byte(`{"h":` + deep + `}`)},
		{Name: "headers-no-object", Headers: []byte(`[1,2,3]`)},
		{Name: "headers-null", Headers: []byte(`null`)},
	} {
		if err := give(row); err != nil {
			return err
		}
	}
	return nil
}

// object is a JSON object with one member.
func object(name, value string) []byte {
	text, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		panic(err) // texts can always be written
	}
	return text
}

// characters gives each text with characters that change what a person or a protocol reads.
func characters(_ *rand.Rand, give func(Row) error) error {
	for name, text := range sorted(map[string]string{
		"control": "a\x01\x07\x08\x1b[2J\x7fz", "lines": "a\r\n\r\n.\r\nz", "bidi": "a\u202e\u2066z", "zero-width": "a\u200b\u200d\ufeffz", "blank": " ",
		"tab": "\t", "quotes": `'"\;--${x}`, "path": "../../etc/passwd", "wildcard": "a.*.>", "slashes": "//a?b#c%00", "last": "\U0010ffff",
	}) {
		for part := range sorted(bounds()) {
			row := Row{Name: name + "-in-" + part}
			row.set(part, text)
			if err := give(row); err != nil {
				return err
			}
		}
	}
	return nil
}

func payloads(r *rand.Rand, give func(Row) error) error {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for name, payload := range sorted(map[string][]byte{
		"empty": {}, "huge": bytes.Repeat([]byte("p"), huge), "noise": noise, "not-utf8": {0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80}, "zeros": make([]byte, 64),
		"sql": []byte(`'; DROP TABLE tailbox_parked; --`), "html": []byte(`<script>alert(1)</script>`), "lines": []byte("HTTP/1.1 200 OK\r\n\r\n"),
		"mail": []byte("x\r\n.\r\nMAIL FROM:<a@b>\r\n"), "deep": []byte(strings.Repeat(`{"a":`, 100_000)), "number": []byte(`{"n":1e999999999}`),
	}) {
		if err := give(Row{Name: "payload-" + name, Payload: payload}); err != nil {
			return err
		}
	}
	// With its other columns this one is above max_message, whose default is 16 MiB.
	return give(Row{Name: "payload-above-max", Payload: bytes.Repeat([]byte("p"), 17<<20), Dead: "max_message"})
}
