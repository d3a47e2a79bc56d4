package test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// product reports whether a file is code that users run or import, or that tests of theirs may.
func (f *file) product() bool {
	return !f.test && !inTestdata(f.path) && !strings.HasPrefix(f.path, "test/")
}

// TestExportedComments holds the form of comments: one on an exported name begins with that name, which may have an article.
func TestExportedComments(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !f.product() {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, c := range commented(d) {
				if c.name.IsExported() && !opensWith(c.doc.Text(), c.name.Name) {
					t.Errorf("%s: the comment on %s does not begin with its name: %.40q", f.set.Position(c.name.Pos()), c.name.Name, c.doc.Text())
				}
			}
		}
	}
}

// A commentedName is a name with the comment above it.
type commentedName struct {
	name *ast.Ident
	doc  *ast.CommentGroup
}

// commented returns the names that a declaration makes and that have a comment of their own.
func commented(d ast.Decl) (all []commentedName) {
	add := func(name *ast.Ident, doc *ast.CommentGroup) {
		if doc != nil {
			all = append(all, commentedName{name, doc})
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		add(d.Name, d.Doc)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name, docOf(d, spec.Doc))
			case *ast.ValueSpec:
				add(spec.Names[0], docOf(d, spec.Doc))
			}
		}
	}
	return all
}

// docOf returns the comment on one part of a declaration. That on a declaration in parentheses is about all of its parts.
func docOf(d *ast.GenDecl, doc *ast.CommentGroup) *ast.CommentGroup {
	if doc == nil && d.Lparen == token.NoPos {
		return d.Doc
	}
	return doc
}

// opensWith reports whether a comment begins with a name, which may have an article before it.
func opensWith(text, name string) bool {
	if strings.HasPrefix(text, "Deprecated: ") {
		return true
	}
	return regexp.MustCompile(`^(A |An |The )?` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
}

func TestOpensWith(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, name string
		want       bool
	}{
		{"Open opens a store.", "Open", true},
		{"A Store keeps state.", "Store", true},
		{"An Outcome is final.", "Outcome", true},
		{"ClassCrash: the process died.", "ClassCrash", true},
		{"Deprecated: use Open.", "OpenAt", true},
		{"Opens a store.", "Open", false},
		{"This is Open.", "Open", false},
		{"Opened is not Open.", "Open", false},
	} {
		if got := opensWith(test.text, test.name); got != test.want {
			t.Errorf("%q on %s: got %v, want %v", test.text, test.name, got, test.want)
		}
	}
}

// oldNames are words that names once had with a meaning of ours, and the word of the field that took their place.
var oldNames = map[string]string{
	"cautious": "safe mode; skipLocked", "suspect": "crash candidate", "accuse": "mark", "acquit": "clear", "doomed": "poison",
	"absence": "missing table", "starvation": "fairness", "hunger": "fairness", "sated": "fairness", "shelve": "demote", "arrivals": "backlog",
	"hunt": "XA lookup", "flaw": "problem", "sqlstore": "store", "cure": "fix", "guilty": "failing",
	"unfit": "unsupported", "misworded": "invalid words",
}

// TestOldNames holds names to the words of the field. Names in SQL, configuration and wire formats are text, and not looked at.
func TestOldNames(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	for _, f := range goFiles(t) {
		if !f.product() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			for _, word := range words.FindAllString(id.Name, -1) {
				if now := oldNames[strings.ToLower(word)]; now != "" {
					t.Errorf("%s: %s: %s is %s", f.set.Position(id.Pos()), id.Name, strings.ToLower(word), now)
				}
			}
			return true
		})
	}
}
