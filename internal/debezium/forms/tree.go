// Package forms reads the texts in which people keep the configuration of a Debezium connector: documents of JSON and YAML, the JSON in scripts of a shell, in
// Markdown and in files of HTTP clients, and the offsets that Java wrote. It finds the documents, and names the forms that it does not read. Options and their
// meaning belong to package debezium.
package forms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"
)

// A Tree is a document of JSON or YAML: a text, a list, or fields in their order. Numbers and booleans are texts as they are written, but for numbers
// of YAML, which are texts as its readers write them: 010 is 8.
type Tree struct {
	Kind   Kind
	Text   string
	Items  []*Tree
	Fields []Field
	Line   int // 0 if it is not known
	// plain: it is a text of YAML without quotes.
	plain bool
}

// A Kind is what a document is.
type Kind int

// Kinds.
const (
	Scalar Kind = iota
	Null
	Sequence
	Mapping
)

// A Field is a key of a mapping, with its value.
type Field struct {
	Key   string
	Value *Tree
}

// Get returns a field; nil if there is none.
func (t *Tree) Get(path ...string) *Tree {
	for _, key := range path {
		var next *Tree
		if t != nil && t.Kind == Mapping {
			for _, f := range t.Fields {
				if f.Key == key {
					next = f.Value
				}
			}
		}
		t = next
	}
	return t
}

// Is returns the text of a field; "" if it has none.
func (t *Tree) Is(path ...string) string {
	if found := t.Get(path...); found != nil && found.Kind == Scalar {
		return found.Text
	}
	return ""
}

// Option returns the text that Kubernetes, or another reader of YAML 1.1, makes of an option. Some words without quotes are booleans there.
func (t *Tree) Option() string {
	switch {
	case !t.plain:
	case slices.Contains([]string{"yes", "on", "Yes", "On", "YES", "ON"}, t.Text):
		return "true"
	case slices.Contains([]string{"no", "off", "No", "Off", "NO", "OFF"}, t.Text):
		return "false"
	}
	return t.Text
}

// Walk visits a tree and all that is in it.
func (t *Tree) Walk(visit func(*Tree)) {
	visit(t)
	for _, item := range t.Items {
		item.Walk(visit)
	}
	for _, f := range t.Fields {
		f.Value.Walk(visit)
	}
}

// Has reports whether a field stands somewhere in a tree.
func (t *Tree) Has(key string) (found bool) {
	t.Walk(func(t *Tree) { found = found || t.Get(key) != nil })
	return found
}

// mostNodes bounds a document: aliases of YAML can make a small one very large.
const mostNodes = 200_000

// mostDepth bounds how deep one is nested.
const mostDepth = 100

var errLarge = errors.New("it is too large for a configuration")

// ReadJSON reads one document of JSON, also with comments in it and commas behind the last of something.
func ReadJSON(text []byte) (*Tree, error) {
	text, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return jsonTree(numbers(bytes.NewReader(text)), mostDepth)
}

// ReadFirstJSON reads the first value of a text, as Kafka Connect reads the body of a request.
func ReadFirstJSON(text string) (*Tree, error) {
	return jsonTree(numbers(strings.NewReader(text)), mostDepth)
}

// numbers decodes JSON with numbers as they are written.
func numbers(r io.Reader) *json.Decoder {
	d := json.NewDecoder(r)
	d.UseNumber()
	return d
}

func jsonTree(d *json.Decoder, depth int) (*Tree, error) {
	if depth == 0 {
		return nil, errLarge
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case nil:
		return &Tree{Kind: Null}, nil
	case json.Delim:
		t := &Tree{Kind: Mapping}
		if v == '[' {
			t.Kind = Sequence
		}
		for d.More() {
			var key string
			if t.Kind == Mapping {
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
			if t.Kind == Mapping {
				t.Fields = append(t.Fields, Field{key, value})
			} else {
				t.Items = append(t.Items, value)
			}
		}
		_, err := d.Token() // its end
		return t, err
	}
	return &Tree{Text: fmt.Sprint(token)}, nil
}

// ReadYAML reads all documents of YAML.
func ReadYAML(text []byte) (documents []*Tree, err error) {
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
		if t.Kind != Null {
			documents = append(documents, t)
		}
	}
}

func yamlTree(n *yaml.Node, left *int) (*Tree, error) {
	if *left--; *left < 0 {
		return nil, errLarge
	}
	t := &Tree{Text: n.Value, Line: n.Line}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return yamlTree(n.Content[0], left)
		}
		t.Kind = Null
	case yaml.AliasNode:
		return yamlTree(n.Alias, left)
	case yaml.SequenceNode:
		t.Kind = Sequence
		for _, one := range n.Content {
			item, err := yamlTree(one, left)
			if err != nil {
				return nil, err
			}
			t.Items = append(t.Items, item)
		}
	case yaml.MappingNode:
		t.Kind = Mapping
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.MappingNode || key.Kind == yaml.SequenceNode {
				return nil, fmt.Errorf("line %d: a key must be a text", key.Line)
			}
			value, err := yamlTree(n.Content[i+1], left)
			if err != nil {
				return nil, err
			}
			if key.Tag == "!!merge" {
				t.Fields = append(merged(value), t.Fields...) // what stands in the mapping itself counts
			} else {
				t.Fields = append(t.Fields, Field{key.Value, value})
			}
		}
	case yaml.ScalarNode:
		t.plain = n.Style == 0
		var number any
		switch {
		case n.Tag == "!!null":
			t.Kind = Null
		case t.plain && (n.Tag == "!!int" || n.Tag == "!!float") && n.Decode(&number) == nil:
			if text, err := json.Marshal(number); err == nil { // JSON has no infinity
				t.Text = string(text)
			}
		}
	}
	return t, nil
}

// merged are the fields that a merge key brings.
func merged(t *Tree) (fields []Field) {
	if t.Kind == Sequence {
		for i := len(t.Items) - 1; i >= 0; i-- { // the first one counts
			fields = append(fields, merged(t.Items[i])...)
		}
		return fields
	}
	return t.Fields
}
