package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	cited    = regexp.MustCompile(`\b(?:R|I)[1-9][0-9]?\b`)
	document = regexp.MustCompile(`[A-Za-z][\w./-]*\.md\b`)
	// notes are documents that are named like a chapter, without a file of that name.
	notes  = regexp.MustCompile(`\b(?:ARCHITECTURE|INTERFACE|HOUSE|FIELD|WRITING|OPERATE|SERVERS) ?[0-9]|\bnotes/`)
	tested = regexp.MustCompile("`([a-z]+(?:/[a-z0-9_]+)+(?:\\.go)?)`")
)

// TestRulesAreExplained: each rule and invariant that Go code cites is in docs/design/rules.md, which names files and folders that exist, and
// no comment cites a document that does not.
func TestRulesAreExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/design/rules.md")
	var rules []string
	for _, heading := range regexp.MustCompile(`(?m)^(?:### |\| )([RI][1-9][0-9]?)\b`).FindAllStringSubmatch(page, -1) {
		rules = append(rules, heading[1])
	}
	if len(rules) != 15+8 {
		t.Errorf("docs/design/rules.md explains %v, want R1 to R15 and I1 to I8", rules)
	}
	for _, path := range tested.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
			t.Errorf("docs/design/rules.md names a file that is not there: %v", err)
		}
	}
	documents := make(map[string]bool)
	var sources []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, d.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			documents[d.Name()] = true
		case strings.HasSuffix(path, ".go"):
			sources = append(sources, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		for _, c := range comments(t, path) {
			for _, rule := range cited.FindAllString(c, -1) {
				if !slices.Contains(rules, rule) {
					t.Errorf("%s cites %s, which docs/design/rules.md does not explain: %s", path, rule, c)
				}
			}
			for _, name := range document.FindAllString(c, -1) {
				if !documents[filepath.Base(name)] {
					t.Errorf("%s cites %s, which is not in the repository: %s", path, name, c)
				}
			}
			if filepath.Base(path) != "rules_test.go" && notes.MatchString(c) {
				t.Errorf("%s cites notes that are not in the repository: %s", path, c)
			}
		}
	}
}

// comments are the comments of a Go file, and of the strings in it those that name a broken rule.
func comments(t *testing.T, path string) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			list = append(list, c.Text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && cited.FindString(lit.Value) == strings.Trim(lit.Value, `"`) {
			list = append(list, lit.Value)
		}
		return true
	})
	return list
}
