package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

const huge = 10 << 20

// A Row is one that an application should not write, by the parts of a message. A part that is missing is NULL.
type Row struct {
	Name    string
	Text    map[string]string // by part: id, type, topic, group, key, tenant
	Headers []byte            // JSON
	Payload []byte
	// Hostile are the parts that an application should not have written so. If the row is not delivered, its dead letter names one of them.
	Hostile []string
	// Dead: it is beyond a bound, so that it is a dead letter for sure.
	Dead bool
}

// A Plan says how many rows a round has beside one of each kind.
type Plan struct {
	// Many rows have a type, a topic and a group of their own. Mixed ones are hostile in several parts.
	Many, Mixed int
	// Huge: values of 10 MiB, and of more, are among them.
	Huge bool
}

// bounds of the texts. A text that is larger makes a dead letter.
func bounds() map[string]int {
	return map[string]int{"id": outbox.MaxIndexed, "type": outbox.MaxIndexed, "tenant": outbox.MaxIndexed,
		"group": outbox.MaxGroup, "key": outbox.MaxGroup, "topic": outbox.MaxGroup}
}

// Rows makes the hostile rows of one round, the same for the same random numbers. Names are the same in each round, ids and groups are not, but where
// they are what is hostile. Values of 10 MiB are made when yield is called, and can be collected when it returns.
func Rows(r *rand.Rand, plan Plan, yield func(Row) error) error {
	m := &maker{r: r, huge: plan.Huge, round: fmt.Sprintf("%08x", r.Uint32()), yield: yield}
	for _, rows := range []func() error{m.sizes, m.headers, m.characters, m.payloads} {
		if err := rows(); err != nil {
			return err
		}
	}
	for i := range plan.Many {
		row := Row{Name: fmt.Sprintf("many-%d", i)}
		own := fmt.Sprintf("own.%d.%s", i, m.round)
		row.set("type", own)
		row.set("topic", own)
		row.set("group", own)
		if err := m.give(row); err != nil {
			return err
		}
	}
	for i := range plan.Mixed {
		if err := m.give(m.mixed(i)); err != nil {
			return err
		}
	}
	return nil
}

// A maker makes the rows of one round.
type maker struct {
	r     *rand.Rand
	huge  bool
	round string
	yield func(Row) error
}

// give fills in the parts that are not hostile.
func (m *maker) give(row Row) error {
	row.Hostile = slices.Sorted(maps.Keys(row.Text))
	if row.Headers != nil {
		row.Hostile = append(row.Hostile, "headers")
	}
	if row.Payload != nil {
		row.Hostile = append(row.Hostile, "payload")
	} else {
		row.Payload = []byte("x")
	}
	name := row.Name + "-" + m.round
	for part, text := range map[string]string{"type": "T", "group": name, "id": name} {
		if _, set := row.Text[part]; !set {
			row.set(part, text)
		}
	}
	return m.yield(row)
}

func (row *Row) set(part, text string) {
	if row.Text == nil {
		row.Text = map[string]string{}
	}
	row.Text[part] = text
}

// sizes gives each text at 0, at its bound, one above it, and at 10 MiB.
func (m *maker) sizes() error {
	for part, bound := range sorted(bounds()) {
		for _, size := range []int{0, bound, bound + 1, huge} {
			if size == huge && !m.huge {
				continue
			}
			row := Row{Name: fmt.Sprintf("%s-of-%d", part, size), Dead: size > bound}
			row.set(part, text(m.r, size))
			if err := m.give(row); err != nil {
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

// numbered is an object with so many headers.
func (m *maker) numbered(n int) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"h%d":%d`, i, m.r.IntN(10))
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (m *maker) headers() error {
	rows := []Row{
		{Name: "headers-100", Headers: m.numbered(outbox.MaxHeaders)},
		{Name: "headers-101", Headers: m.numbered(outbox.MaxHeaders + 1), Dead: true},
		{Name: "headers-100000", Headers: m.numbered(100_000), Dead: true},
		{Name: "header-name-long", Headers: object(text(m.r, outbox.MaxHeaderName+1), "x"), Dead: true},
		{Name: "header-value-long", Headers: object("h", text(m.r, outbox.MaxHeaderBytes)), Dead: true},
	}
	if m.huge {
		rows = append(rows, Row{Name: "header-value-huge", Headers: object("h", text(m.r, huge)), Dead: true})
	}
	for name, headers := range sorted(smallHeaders()) {
		rows = append(rows, Row{Name: name, Headers: headers})
	}
	for _, row := range rows {
		if err := m.give(row); err != nil {
			return err
		}
	}
	return nil
}

// smallHeaders are within all bounds.
func smallHeaders() map[string][]byte {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	return map[string][]byte{
		"headers-0":            []byte(`{}`),
		"header-name-empty":    object("", "x"),
		"header-names-by-case": []byte(`{"X-Name":"1","x-name":"2","X-NAME":"3"}`),
		"header-lines":         object("h", "1\r\nHost: elsewhere\r\n\r\nGET / HTTP/1.1"),
		"header-name-lines":    object("h\r\nHost", "elsewhere"),
		"header-framing":       []byte(`{"Content-Length":"0","Transfer-Encoding":"chunked","Connection":"close","Host":"elsewhere"}`),
		"header-ours":          []byte(`{"id":"other","tailbox-position":"0/0","tailbox-attempt":"x"}`),
		"header-numbers":       []byte(`{"a":1e400,"b":-0,"c":9223372036854775808,"d":0.1e-300,"e":18446744073709551616}`),
		"header-deep":          []byte(`{"h":` + deep + `}`),
		"header-bidi":          object("h\u202e", "a\u2066\u200b\ufeffz"),
		"headers-no-object":    []byte(`[1,2,3]`),
		"headers-null":         []byte(`null`),
	}
}

// object is a JSON object with one member.
func object(name, value string) []byte {
	text, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		panic(err) // texts can always be written
	}
	return text
}

// smallTexts have characters that change what a person or a protocol reads.
func smallTexts() map[string]string {
	return map[string]string{
		"control": "a\x01\x07\x08\x1b[2J\x7fz", "lines": "a\r\n\r\n.\r\nz", "bidi": "a\u202e\u2066z", "zero-width": "a\u200b\u200d\ufeffz", "blank": " ",
		"tab": "\t", "quotes": `'"\;--${x}`, "path": "../../etc/passwd", "wildcard": "a.*.>", "slashes": "//a?b#c%00", "last": "\U0010ffff",
		"zero": "a\x00z", "not-utf8": "a\xff\xc0\x80z",
	}
}

// characters gives each text with each of these.
func (m *maker) characters() error {
	for name, text := range sorted(smallTexts()) {
		for part := range sorted(bounds()) {
			row := Row{Name: name + "-in-" + part}
			row.set(part, m.own(part, text))
			if err := m.give(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// own makes an id or a group one of the round: a table takes an id once, and a group may wait for a dead letter of an earlier round.
func (m *maker) own(part, text string) string {
	if part == "id" || part == "group" {
		return fmt.Sprintf("%s%s-%x%s", text, m.round, m.r.Uint32(), text)
	}
	return text
}

func (m *maker) payloads() error {
	for name, payload := range sorted(m.smallPayloads()) {
		if err := m.give(Row{Name: "payload-" + name, Payload: payload}); err != nil {
			return err
		}
	}
	if err := m.give(Row{Name: "payload-deep", Payload: []byte(strings.Repeat(`{"a":`, 100_000))}); err != nil || !m.huge {
		return err
	}
	if err := m.give(Row{Name: "payload-huge", Payload: bytes.Repeat([]byte("p"), huge)}); err != nil {
		return err
	}
	// With its other columns this one is above max_message, whose default is 16 MiB.
	return m.give(Row{Name: "payload-above-max", Payload: bytes.Repeat([]byte("p"), 17<<20), Dead: true})
}

func (m *maker) smallPayloads() map[string][]byte {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(m.r.Uint32())
	}
	return map[string][]byte{
		"empty": {}, "noise": noise, "not-utf8": {0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80}, "zeros": make([]byte, 64),
		"sql": []byte(`'; DROP TABLE tailbox_parked; --`), "html": []byte(`<script>alert(1)</script>`), "lines": []byte("HTTP/1.1 200 OK\r\n\r\n"),
		"mail": []byte("x\r\n.\r\nMAIL FROM:<a@b>\r\n"), "number": []byte(`{"n":1e999999999}`), "null": []byte("null"), "quote": []byte(`"`),
	}
}

// mixed is a row that is hostile in several parts; one in 20 has texts around their bounds.
func (m *maker) mixed(i int) Row {
	row := Row{Name: fmt.Sprintf("mixed-%d", i)}
	for part, bound := range sorted(bounds()) {
		switch {
		case m.r.IntN(3) > 0:
		case part != "id" && m.r.IntN(40) == 0:
			size := bound - 1 + m.r.IntN(3)
			row.set(part, text(m.r, size))
			row.Dead = row.Dead || size > bound
		default:
			text := pick(m.r, smallTexts())
			if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
				text = pick(m.r, smallTexts()) // most databases refuse the row, so there are fewer of these
			}
			row.set(part, m.own(part, text))
		}
	}
	if m.r.IntN(3) == 0 {
		row.Headers = pick(m.r, smallHeaders())
	}
	if m.r.IntN(3) == 0 {
		row.Payload = pick(m.r, m.smallPayloads())
	}
	return row
}

// pick takes one value at random.
func pick[V any](r *rand.Rand, from map[string]V) V {
	names := slices.Sorted(maps.Keys(from))
	return from[names[r.IntN(len(names))]]
}
