package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/sink"
)

// A Section is a mapping of the file. Each of its methods reads one key and remembers that the key was asked for: a key
// that nobody asked for is unknown, which Done tells. What is wrong with a value is added to the file's problems, and the
// default is returned for it. A key without a value counts as absent.
type Section struct {
	file  *File
	node  *yaml.Node
	path  []string
	asked []string
}

func (f *File) section(n *yaml.Node, path []string) *Section {
	s := &Section{file: f, node: n, path: path}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			f.addAt(key.Line, path, "", "has a key that is no text")
			continue
		}
		if line, repeated := first[key.Value]; repeated {
			f.addAt(key.Line, s.at(key.Value), "", fmt.Sprintf("is repeated: it stands in line %d already", line))
			continue
		}
		first[key.Value] = key.Line
	}
	return s
}

func (s *Section) at(steps ...string) []string {
	return append(append(make([]string, 0, len(s.path)+len(steps)), s.path...), steps...)
}

// Name is the key of this section.
func (s *Section) Name() string { return s.path[len(s.path)-1] }

// Add tells a problem with a key of this section. value is shown, so it must not be secret.
func (s *Section) Add(key, value, reason string, allowed ...string) {
	s.file.Add(s.at(key), value, reason, allowed...)
}

// AddAt tells a problem with a key some steps below this section, such as tls, cert.
func (s *Section) AddAt(steps []string, reason string) {
	s.file.Add(s.at(steps...), "", reason)
}

// Has reports whether the key is there with a value.
func (s *Section) Has(key string) bool {
	_, v := child(s.node, key)
	return v != nil && !isNull(v)
}

// Keys lists the keys that are there, in order, and counts them as asked for.
func (s *Section) Keys() []string {
	var keys []string
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		key := s.node.Content[i]
		if key.Kind == yaml.ScalarNode && !slices.Contains(keys, key.Value) {
			keys = append(keys, key.Value)
		}
	}
	s.asked = append(s.asked, keys...)
	return keys
}

// Allow makes keys known without reading them.
func (s *Section) Allow(keys ...string) { s.asked = append(s.asked, keys...) }

// Done tells all keys that nobody asked for.
func (s *Section) Done() {
	var allowed []string
	for _, key := range s.asked {
		if !slices.Contains(allowed, key) {
			allowed = append(allowed, key)
		}
	}
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		key := s.node.Content[i]
		if key.Kind == yaml.ScalarNode && !slices.Contains(s.asked, key.Value) {
			s.file.addAt(key.Line, s.at(key.Value), "", "unknown key", allowed...)
		}
	}
}

// value finds a key that has a value.
func (s *Section) value(key string) *yaml.Node {
	s.asked = append(s.asked, key)
	_, v := child(s.node, key)
	if v == nil || isNull(v) {
		return nil
	}
	return v
}

// scalar returns the text of a value with the environment put in; ok is false where there is none, or a wrong one.
func (s *Section) scalar(n *yaml.Node, path []string, secret bool) (text string, ok bool) {
	return s.scalarBy(expand, n, path, secret)
}

// scalarBy is scalar with a way of its own to put the environment in.
func (s *Section) scalarBy(expand expansion, n *yaml.Node, path []string, secret bool) (text string, ok bool) {
	if n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		s.file.addAt(n.Line, path, "", "must be one value, not a list or mapping")
		return "", false
	}
	text, errs := expand(n.Value, s.file.env)
	for _, err := range errs {
		shown := n.Value
		if secret {
			shown = ""
		}
		s.file.addAt(n.Line, path, shown, err.Error())
	}
	return text, len(errs) == 0
}

// String reads a text.
func (s *Section) String(key, byDefault string) string {
	text, ok := s.scalar(s.value(key), s.at(key), false)
	if !ok || text == "" {
		text = byDefault
	}
	s.keep(key, text)
	return text
}

// Secret reads a text that is never shown, from the key or from the file that the key with _file names, whose last line
// break is left out.
func (s *Section) Secret(key string) string {
	text := s.secretBy(expand, maskAll, key)
	s.Conceal(text)
	return text
}

// Address reads the address of a Postgres server as Secret does. A variable between the single quotes of libpq's keywords may
// hold any text.
func (s *Section) Address(key string) string {
	text := s.secretBy(expandAddress, maskDatabase, key)
	s.Conceal(passwords(text)...)
	return text
}

// server reads the address of another database server as Secret does. A variable in its user's part may hold any text.
func (s *Section) server(key string) string {
	text := s.secretBy(expandURL, maskDatabase, key)
	s.Conceal(passwords(text)...)
	return text
}

// secretBy reads a secret. mask returns what the effective configuration shows of it.
func (s *Section) secretBy(expand expansion, mask func(string) string, key string) string {
	text, _ := s.scalarBy(expand, s.value(key), s.at(key), true)
	s.keep(key, mask(text))
	path := s.Path(key + "_file")
	if path == "" {
		return text
	}
	if text != "" {
		s.Add(key+"_file", path, "stands beside "+key+": keep one of the two")
		return text
	}
	data, err := os.ReadFile(path)
	if err != nil {
		s.Add(key+"_file", path, "cannot be read: "+err.Error()+": correct the path, or let the user that runs tailbox read the file")
		return ""
	}
	text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" { // as a writer leaves it that failed, or is not done
		s.Add(key+"_file", path, "holds nothing: write the secret into it, or leave the key out")
	}
	return text
}

// Path reads the path of a file. A relative one is relative to the configuration's folder.
func (s *Section) Path(key string) string {
	p := s.String(key, "")
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	p = filepath.Join(s.file.dir, p)
	s.keep(key, p)
	return p
}

// parsed reads a value by a function.
func parsed[T any](s *Section, key string, byDefault T, parse func(string) (T, error)) T {
	text, ok := s.scalar(s.value(key), s.at(key), false)
	if !ok || text == "" {
		s.keep(key, byDefault)
		return byDefault
	}
	v, err := parse(text)
	if err != nil {
		s.Add(key, text, err.Error())
		return byDefault
	}
	s.keep(key, v)
	return v
}

// Choice reads one of the allowed words.
func (s *Section) Choice(key, byDefault string, allowed ...string) string {
	text := s.String(key, byDefault)
	if text != byDefault && !slices.Contains(allowed, text) {
		s.Add(key, text, "is unknown", allowed...)
		return byDefault
	}
	return text
}

// Bool reads true or false.
func (s *Section) Bool(key string, byDefault bool) bool {
	return parsed(s, key, byDefault, func(v string) (bool, error) {
		switch v {
		case "true", "false":
			return v == "true", nil
		}
		return false, fmt.Errorf("must be true or false")
	})
}

// Int reads a number between two bounds, both included.
func (s *Section) Int(key string, byDefault, least, most int) int {
	return parsed(s, key, byDefault, func(v string) (int, error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("must be a number from %d to %d", least, most)
		}
		return n, nil
	})
}

// Float reads a number.
func (s *Section) Float(key string, byDefault float64) float64 {
	return parsed(s, key, byDefault, func(v string) (float64, error) {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0, fmt.Errorf("must be a number")
		}
		return n, nil
	})
}

// Duration reads a duration such as 1m30s.
func (s *Section) Duration(key string, byDefault time.Duration) time.Duration {
	return parsed(s, key, byDefault, parseDuration)
}

// Positive reads a duration that may not be 0s.
func (s *Section) Positive(key string, byDefault time.Duration) time.Duration {
	return parsed(s, key, byDefault, func(v string) (time.Duration, error) {
		d, err := parseDuration(v)
		if err == nil && d == 0 {
			err = errors.New("must be above 0s; leave it out for the default")
		}
		return d, err
	})
}

// Size reads a number of bytes, such as 64MiB, of at least the given one.
func (s *Section) Size(key string, byDefault, least int64) int64 {
	n := parsed(s, key, byDefault, func(v string) (int64, error) {
		n, err := parseSize(v)
		if err == nil && n < least {
			err = fmt.Errorf("must be at least %d bytes", least)
		}
		return n, err
	})
	s.keep(key, sizeText(n))
	return n
}

// Strings reads a list of texts; one text counts as a list of it.
func (s *Section) Strings(key string) []string {
	list := s.strings(s.value(key), s.at(key), false)
	s.keep(key, list)
	return list
}

func (s *Section) strings(n *yaml.Node, path []string, secret bool) []string {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		if text, ok := s.scalar(n, path, secret); ok {
			return []string{text}
		}
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		s.file.addAt(n.Line, path, "", "must be a list")
		return nil
	}
	var list []string
	for i, item := range n.Content {
		itemPath := append(slices.Clone(path), strconv.Itoa(i))
		if isNull(item) {
			s.file.addAt(item.Line, itemPath, "", "is empty")
			continue
		}
		if text, ok := s.scalar(item, itemPath, secret); ok {
			list = append(list, text)
		}
	}
	return list
}

// Map reads a mapping of texts. Its values are treated as secret.
func (s *Section) Map(key string) map[string]string {
	sub := s.Section(key)
	if sub == nil {
		return nil
	}
	texts := map[string]string{}
	for _, name := range sub.Keys() {
		if text, ok := sub.scalar(sub.value(name), sub.at(name), true); ok {
			texts[name] = text
			sub.keep(name, hidden)
		}
	}
	return texts
}

// Section reads a mapping; nil where it is absent.
func (s *Section) Section(key string) *Section {
	n := s.value(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		s.file.addAt(n.Line, s.at(key), "", "must be a mapping of keys to values")
		return nil
	}
	return s.file.section(n, s.at(key))
}

// orEmpty reads a mapping, or one without keys if it is absent, so that its defaults are read as well.
func (s *Section) orEmpty(key string) *Section {
	if sub := s.Section(key); sub != nil {
		return sub
	}
	return s.file.section(emptyNode(), s.at(key))
}

// Within reads a mapping, for kinds of sinks. It calls read unless the mapping is absent.
func (s *Section) Within(key string, read func(sink.Section)) {
	if sub := s.Section(key); sub != nil {
		read(sub)
		sub.Done()
	}
}

// Sections reads a list of mappings. A wrong item is nil.
func (s *Section) Sections(key string) []*Section {
	n := s.value(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		s.file.addAt(n.Line, s.at(key), "", "must be a list")
		return nil
	}
	s.file.keepList(s.at(key))
	sections := make([]*Section, len(n.Content))
	for i, item := range n.Content {
		path := s.at(key, strconv.Itoa(i))
		if item.Kind != yaml.MappingNode {
			s.file.addAt(item.Line, path, "", "must be a mapping of keys to values")
			continue
		}
		sections[i] = s.file.section(item, path)
	}
	return sections
}
