package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
)

// A tree is the product code of a repository.
type tree struct {
	files     []*file
	functions []*function
	types     []*typ
	byName    map[string]*typ
}

type file struct {
	path, dir string
	lines     int
	code      []string // lines that say something, without blanks at their ends
}

type function struct {
	path, name string
	lines      int
}

// A typ is a named type of a package.
type typ struct {
	name     string // with its folder
	methods  int
	fields   int
	embedded []string // types of the same folder
}

// product reports whether a folder holds product code: no tests, and no kits that only tests import.
func product(dir string) bool {
	return !slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool {
		return strings.HasSuffix(part, "test") || slices.Contains([]string{"testdata", ".git", "bin"}, part)
	})
}

// readTree parses all Go files of product code.
func readTree(root fs.FS) (*tree, error) {
	t := &tree{byName: make(map[string]*typ)}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !product(name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil {
			err = t.add(name, text)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		return nil
	})
	return t, err
}

// phrases are lines that every file has.
func phrases() []string {
	return []string{"return err", "if err != nil {", "return nil, err", "return nil", "default:", "} else {", "break", "continue", "import (", ")"}
}

func (t *tree) add(name string, text []byte) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &file{path: name, dir: path.Dir(name)}
	for line := range strings.Lines(string(text)) {
		f.lines++
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsLetter) && !strings.HasPrefix(line, "//") && !slices.Contains(phrases(), line) {
			f.code = append(f.code, line)
		}
	}
	t.files = append(t.files, f)
	for _, decl := range parsed.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			lines := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1
			t.functions = append(t.functions, &function{name, d.Name.Name, lines})
			if d.Recv != nil {
				t.named(f.dir, typeName(d.Recv.List[0].Type)).methods++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					t.addType(f.dir, s)
				}
			}
		}
	}
	return nil
}

func (t *tree) addType(dir string, spec *ast.TypeSpec) {
	one := t.named(dir, spec.Name.Name)
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range structure.Fields.List {
		one.fields += len(field.Names)
		if len(field.Names) == 0 {
			one.embedded = append(one.embedded, dir+"."+typeName(field.Type))
		}
	}
}

// named finds a type, or makes it.
func (t *tree) named(dir, name string) *typ {
	full := dir + "." + name
	one := t.byName[full]
	if one == nil {
		one = &typ{name: full}
		t.byName[full] = one
		t.types = append(t.types, one)
	}
	return one
}

// typeName is the name of a type of the same package, without pointer and parameters; "" for others.
func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	}
	return ""
}

// fieldsOf counts the fields of a type and of the types that it embeds; an embedded type of another package counts as one.
func (t *tree) fieldsOf(one *typ, seen []*typ) int {
	n := one.fields
	for _, name := range one.embedded {
		inner := t.byName[name]
		if inner == nil || slices.Contains(seen, inner) {
			n++
			continue
		}
		n += t.fieldsOf(inner, append(seen, one))
	}
	return n
}

// alike counts the lines of code that files of one name below two folders have in common, in the same order, and names the file with
// most.
func (t *tree) alike(a, b string) (lines int, where string) {
	below := func(dir string) map[string]*file {
		found := make(map[string]*file)
		for _, f := range t.files {
			if strings.HasPrefix(f.path, dir+"/") {
				found[path.Base(f.path)] = f
			}
		}
		return found
	}
	ours, theirs := below(a), below(b)
	most := 0
	for name, f := range ours {
		g := theirs[name]
		if g == nil {
			continue
		}
		n := common(f.code, g.code)
		lines += n
		if n > most || n == most && name < where {
			most, where = n, name
		}
	}
	return lines, fmt.Sprintf("%d of them in %s", most, where)
}

// common is the length of the longest sequence of lines that two files share.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, line := range a {
		before := 0
		for j, other := range b {
			keep := row[j+1]
			if line == other {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = keep
		}
	}
	return row[len(b)]
}
