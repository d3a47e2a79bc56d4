package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds that keep a hostile file from costing more than its own size: aliases could multiply it.
const (
	maxDepth = 32
	maxNodes = 100_000
)

// A File is a parsed configuration file. It collects what is wrong while its sections are read, so that everything is told
// at once. It is used by one goroutine.
type File struct {
	name     string
	dir      string
	data     []byte
	env      func(string) (string, bool)
	root     *yaml.Node
	problems []*Problem
	secrets  []string
	// effective is the tree of what was read.
	effective *yaml.Node
}

// Parse reads YAML. name is told in errors, and relative paths in the file are relative to its folder. env looks up the
// environment, as os.LookupEnv does.
func Parse(name string, data []byte, env func(string) (string, bool)) (*File, error) {
	f := &File{name: name, dir: filepath.Dir(name), data: data, env: env, effective: emptyNode()}
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil && err.Error() != "EOF" {
		return nil, fmt.Errorf("read %s: %w", name, errors.New(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		return nil, fmt.Errorf("read %s: it holds several YAML documents: keep one, and one file a pipeline", name)
	}
	f.root = &yaml.Node{Kind: yaml.MappingNode, Line: 1}
	if len(document.Content) == 0 || isNull(document.Content[0]) {
		return f, nil
	}
	left := maxNodes
	root, err := resolve(document.Content[0], 0, &left)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read %s: it must be a mapping of keys to values, such as `pipeline: orders`", name)
	}
	f.root = root
	return f, nil
}

// resolve copies the tree with its aliases replaced by what they stand for.
func resolve(n *yaml.Node, depth int, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("line %d: more than %d values", n.Line, maxNodes)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested deeper than %d levels", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil {
			return nil, fmt.Errorf("line %d: alias of nothing", n.Line)
		}
		return resolve(n.Alias, depth+1, left)
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		r, err := resolve(child, depth+1, left)
		if err != nil {
			return nil, err
		}
		c.Content[i] = r
	}
	return &c, nil
}

// Top is the whole file as a section.
func (f *File) Top() *Section { return f.section(f.root, nil) }

// Err returns everything that was found wrong so far, as an *Error, or nil.
func (f *File) Err() error {
	if len(f.problems) == 0 {
		return nil
	}
	return &Error{File: f.name, Problems: sortProblems(f.problems)}
}

// Add tells a problem at a path; indexes of lists are numbers from 0. value is shown, so it must not be secret.
func (f *File) Add(path []string, value, reason string, allowed ...string) {
	f.addAt(f.line(path), path, value, reason, allowed...)
}

func (f *File) addAt(line int, path []string, value, reason string, allowed ...string) {
	p := &Problem{Line: line, Path: pathText(path), Value: value, Reason: reason, Allowed: allowed}
	if len(path) > 0 {
		p.key = path[len(path)-1]
	}
	f.problems = append(f.problems, p)
}

// line is where a path stands, or the deepest part of it that is there; 0 where not even its first key is.
func (f *File) line(path []string) int {
	n, line := f.root, 0
	for _, step := range path {
		key, value := child(n, step)
		if value == nil {
			break
		}
		n, line = value, key.Line
	}
	return line
}

// child finds a key of a mapping or an index of a list.
func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// pathText writes indexes in brackets.
func pathText(path []string) string {
	var b strings.Builder
	for _, step := range path {
		if _, err := strconv.Atoi(step); err == nil && b.Len() > 0 {
			b.WriteString("[" + step + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}
