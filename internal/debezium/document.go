package debezium

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A document is YAML in the making: lines with comments.
type document struct {
	head, body, tail []string
	// made are the keys that were written, and idle why nothing was, by Debezium's key.
	made map[string][]string
	idle map[string]string
}

func (d *document) title(text string) { d.head = append(d.head, "# "+oneLine(text)) }

// section begins a mapping at a depth.
func (d *document) section(depth int, key, from string) { d.line(depth, key+":", from) }

// set writes a key and its value.
func (d *document) set(depth int, key, value, from string) {
	d.madeOf(key, from)
	d.line(depth, key+": "+value, from)
}

// madeOf notes which options of Debezium's a key was made of.
func (d *document) madeOf(key string, options ...string) {
	if d.made == nil {
		d.made = map[string][]string{}
	}
	for _, option := range options {
		d.made[option] = append(d.made[option], key)
	}
}

func (d *document) line(depth int, text, from string) {
	line := strings.Repeat("  ", depth) + text
	if from != "" {
		line += "  # " + oneLine(from)
	}
	d.body = append(d.body, line)
}

// note writes a comment of its own.
func (d *document) note(depth int, text string) {
	d.body = append(d.body, strings.Repeat("  ", depth)+"# "+oneLine(text))
}

// names reports whether what was written so far holds a text.
func (d *document) names(text string) bool {
	return slices.ContainsFunc(d.body, func(line string) bool { return strings.Contains(line, text) })
}

// ignored lists an option that has no effect.
func (d *document) ignored(key, why string) {
	if d.idle == nil {
		d.idle = map[string]string{}
	}
	d.idle[key] = why
	d.tail = append(d.tail, "#   "+oneLine(key)+": "+oneLine(why))
}

func (d *document) bytes() []byte {
	lines := append(append([]string{}, d.head...), d.body...)
	if len(d.tail) > 0 {
		lines = append(append(lines, "", "# Left out, because it has no effect on what the outbox sends:"), d.tail...)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// oneLine keeps a comment a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// quoted is a text as YAML in double quotes. What looks like a variable stays one.
func quoted(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\x` + string(hex[r>>4]) + string(hex[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// list is a list of texts in one line.
func list(items []string) string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = quoted(item)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// commas splits a list of Debezium's.
func commas(s string) []string {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
