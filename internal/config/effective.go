package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/outbox"
)

// Effective returns, as YAML, the configuration as it was read by now: with defaults filled in, and with secrets masked. Each method of a Section
// that reads a key adds the key to it, so that a key can neither be forgotten nor be shown by another rule than the one it is read by.
func (f *File) Effective() (string, error) {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(f.effective); err != nil {
		return "", fmt.Errorf("write the effective configuration: %w", err)
	}
	return b.String(), e.Close()
}

// secretName matches names of keys that hold a secret. No key that is read as a plain text should have such a name; if one has, its value is masked.
// A header that routes look at may have one.
var secretName = regexp.MustCompile(`(?i)passw|secret|token|bearer|credential|authori[sz]ation|cookie|api[-_]?key`)

// keep adds a value to the effective configuration. An empty text, an empty list and the number 0 stand for a key that is absent.
func (s *Section) keep(key string, value any) {
	hide := func(text string) string {
		if secretName.MatchString(key) && !strings.HasSuffix(key, "_file") {
			return hidden
		}
		return userInfo.ReplaceAllString(text, "://"+hidden+"@")
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := value.(type) {
	case nil:
		n.Value, n.Tag = "null", "!!null"
	case string:
		if v == "" {
			return
		}
		n.SetString(hide(v))
	case []string:
		if len(v) == 0 {
			return
		}
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, text := range v {
			item := &yaml.Node{Kind: yaml.ScalarNode}
			item.SetString(hide(text))
			n.Content = append(n.Content, item)
		}
	case time.Duration:
		n.SetString(durationText(v))
	case bool:
		n.Value, n.Tag = strconv.FormatBool(v), "!!bool"
	case float64:
		n.Value = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		if n.Value = fmt.Sprint(v); n.Value == "0" {
			return
		}
	}
	s.file.keep(s.at(key), n)
}

// keep puts a node at a path, and makes the sections above it.
func (f *File) keep(path []string, value *yaml.Node) {
	at := f.effective
	for i, step := range path {
		last := i == len(path)-1
		_, next := child(at, step)
		switch {
		case next != nil && last:
			*next = *value
		case next != nil:
		case last:
			next = value
		default:
			next = emptyNode()
		}
		if _, there := child(at, step); there == nil {
			if at.Kind == yaml.MappingNode {
				name := &yaml.Node{Kind: yaml.ScalarNode}
				name.SetString(step)
				at.Content = append(at.Content, name)
			}
			at.Content = append(at.Content, next)
		}
		at = next
	}
}

// keepList makes a list at a path, for sections that are numbered below it.
func (f *File) keepList(path []string) { f.keep(path, &yaml.Node{Kind: yaml.SequenceNode}) }

// item is an item of a list that is absent: it has no keys, and all of its defaults count.
func (s *Section) item(key string, i int) *Section {
	s.file.keepList(s.at(key))
	return s.file.section(emptyNode(), s.at(key, strconv.Itoa(i)))
}

// forget takes keys out of the effective configuration that have no effect.
func (s *Section) forget(keys ...string) {
	n := s.file.effective
	for _, step := range s.path {
		if _, n = child(n, step); n == nil {
			return
		}
	}
	for i := 0; i+1 < len(n.Content); {
		if slices.Contains(keys, n.Content[i].Value) {
			n.Content = slices.Delete(n.Content, i, i+2)
		} else {
			i += 2
		}
	}
}

// keepTable adds what the shape of a table makes of it. A column of the shape that the file takes away is null.
func (s *Section) keepTable(t *outbox.Table, shape *outbox.Shape) {
	name := t.Name
	if t.Schema != "" {
		name = t.String()
	}
	if !s.Has("name") { // else it stands there, quoted as it has to be
		s.keep("name", name)
	}
	columns := s.file.section(emptyNode(), s.at("columns"))
	for _, key := range outbox.ColumnNames() {
		if field := t.Columns.Field(key); field != nil && *field == "" && *shape.Columns.Field(key) != "" {
			columns.keep(key, nil)
		} else if field != nil {
			columns.keep(key, *field)
		}
	}
	columns.keep("group", t.Columns.Group)
	if len(t.Columns.Group) == 0 && len(shape.Columns.Group) > 0 {
		columns.keep("group", nil)
	}
	for i := range t.References {
		columns.keep(t.References[i].Part, t.References[i].String())
	}
	if t.Columns.Status != "" {
		words := s.file.section(emptyNode(), s.at("words"))
		for _, key := range outbox.WordNames() {
			words.keep(key, *t.Words.Word(key))
		}
		if len(t.AlsoPending) > 0 {
			words.keep("pending", append([]string{t.Words.Pending}, t.AlsoPending...))
		}
	}
	if t.Topic == "" {
		s.forget("topic") // a column has it
	}
}

// durationText writes a duration as people do: 5m, and not 5m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func durationTexts(all []time.Duration) []string {
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = durationText(d)
	}
	return texts
}

// sizeText writes a number of bytes with the largest unit that makes it a whole number.
func sizeText(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
