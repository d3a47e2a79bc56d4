package debezium

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"
)

// A tree is a document of JSON or YAML: a text, a list, or fields in their order. Numbers and booleans are texts as they are written.
type tree struct {
	kind   treeKind
	text   string
	items  []*tree
	fields []field
	line   int // 0 if it is not known
}

type treeKind int

const (
	scalar treeKind = iota
	null
	sequence
	mapping
)

type field struct {
	key   string
	value *tree
}

// get returns a field; nil if there is none.
func (t *tree) get(path ...string) *tree {
	for _, key := range path {
		var next *tree
		if t != nil && t.kind == mapping {
			for _, f := range t.fields {
				if f.key == key {
					next = f.value
				}
			}
		}
		t = next
	}
	return t
}

// is returns the text of a field; "" if it has none.
func (t *tree) is(path ...string) string {
	if found := t.get(path...); found != nil && found.kind == scalar {
		return found.text
	}
	return ""
}

// walk visits a tree and all that is in it.
func (t *tree) walk(visit func(*tree)) {
	visit(t)
	for _, item := range t.items {
		item.walk(visit)
	}
	for _, f := range t.fields {
		f.value.walk(visit)
	}
}

// has reports whether a field stands somewhere in a tree.
func (t *tree) has(key string) (found bool) {
	t.walk(func(t *tree) { found = found || t.get(key) != nil })
	return found
}

// mostNodes bounds a document: aliases of YAML can make a small one very large.
const mostNodes = 200_000

// mostDepth bounds how deep one is nested.
const mostDepth = 100

var errLarge = errors.New("it is too large for a configuration")

// readJSON reads one document of JSON, also with comments in it and commas behind the last of something.
func readJSON(text []byte) (*tree, error) {
	text, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return jsonTree(numbers(bytes.NewReader(text)), mostDepth)
}

// numbers decodes JSON with numbers as they are written.
func numbers(r io.Reader) *json.Decoder {
	d := json.NewDecoder(r)
	d.UseNumber()
	return d
}

func jsonTree(d *json.Decoder, depth int) (*tree, error) {
	if depth == 0 {
		return nil, errLarge
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case nil:
		return &tree{kind: null}, nil
	case json.Delim:
		t := &tree{kind: mapping}
		if v == '[' {
			t.kind = sequence
		}
		for d.More() {
			var key string
			if t.kind == mapping {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				key = fmt.Sprint(name)
			}
			value, err := jsonTree(d, depth-1)
			if err != nil {
				return nil, err
			}
			if t.kind == mapping {
				t.fields = append(t.fields, field{key, value})
			} else {
				t.items = append(t.items, value)
			}
		}
		_, err := d.Token() // its end
		return t, err
	}
	return &tree{text: fmt.Sprint(token)}, nil
}

// readYAML reads all documents of YAML.
func readYAML(text []byte) (documents []*tree, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	left := mostNodes
	for {
		var node yaml.Node
		if err := d.Decode(&node); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		t, err := yamlTree(&node, &left)
		if err != nil {
			return nil, err
		}
		if t.kind != null {
			documents = append(documents, t)
		}
	}
}

func yamlTree(n *yaml.Node, left *int) (*tree, error) {
	if *left--; *left < 0 {
		return nil, errLarge
	}
	t := &tree{text: n.Value, line: n.Line}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return yamlTree(n.Content[0], left)
		}
		t.kind = null
	case yaml.AliasNode:
		return yamlTree(n.Alias, left)
	case yaml.SequenceNode:
		t.kind = sequence
		for _, one := range n.Content {
			item, err := yamlTree(one, left)
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, item)
		}
	case yaml.MappingNode:
		t.kind = mapping
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := yamlTree(n.Content[i+1], left)
			if err != nil {
				return nil, err
			}
			if key := n.Content[i]; key.Tag == "!!merge" {
				t.fields = append(merged(value), t.fields...) // what stands in the mapping itself counts
			} else {
				t.fields = append(t.fields, field{key.Value, value})
			}
		}
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			t.kind = null
		}
	}
	return t, nil
}

// merged are the fields that a merge key brings.
func merged(t *tree) (fields []field) {
	if t.kind == sequence {
		for i := len(t.items) - 1; i >= 0; i-- { // the first one counts
			fields = append(fields, merged(t.items[i])...)
		}
		return fields
	}
	return t.fields
}
