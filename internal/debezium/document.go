package debezium

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A document is YAML in the making: lines with comments.
type document struct {
	head, body []string
	// idle are the settings that have no effect.
	idle []*setting
	// origins are the settings that a line of body comes from, by its index.
	origins map[int][]*setting
}

func (d *document) title(text string) { d.head = append(d.head, "# "+oneLine(text)) }

// section begins a mapping at a depth.
func (d *document) section(depth int, key, from string) { d.line(depth, key+":", from) }

// set writes a key and its value. Its comment names the settings that it comes from, and then a note. A setting may be nil.
func (d *document) set(depth int, key, value, note string, from ...*setting) {
	from = slices.DeleteFunc(from, func(s *setting) bool { return s == nil })
	made := key
	if note != "" {
		made += " (" + note + ")"
	}
	decides(made, from...)
	if len(from) > 0 {
		note = strings.TrimSuffix(keysOf(from)+", "+note, ", ")
	}
	d.line(depth, key+": "+value, note)
	d.comesFrom(from...)
}

// comesFrom notes the settings that the last line comes from.
func (d *document) comesFrom(settings ...*setting) {
	if d.origins == nil {
		d.origins = map[int][]*setting{}
	}
	d.origins[len(d.body)-1] = settings
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

// ignored lists a setting that has no effect.
func (d *document) ignored(s *setting, why string) {
	if s.idle == "" {
		d.idle = append(d.idle, s)
	}
	s.idle = why
}

func (d *document) bytes() []byte {
	lines := append(append([]string{}, d.head...), d.body...)
	if len(d.idle) > 0 {
		lines = append(lines, "", "# Left out, because it has no effect on what the outbox sends:")
	}
	for _, s := range d.idle {
		lines = append(lines, "#   "+oneLine(s.key)+": "+oneLine(s.idle))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// oneLine keeps a comment a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == utf8.RuneError {
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
		case r < ' ' || r >= 0x7f && r <= 0x9f:
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
