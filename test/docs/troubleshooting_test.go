package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verb is one of a format.
var verb = regexp.MustCompile(`%[-+#0-9.*\[\]]*[a-zA-Z]`)

// TestQuotedTexts wants each text that the troubleshooting page quotes to stand in the program. An ellipsis stands for anything, and an error
// is often put together at a colon. Of the pieces, those of twelve characters and more are looked for.
func TestQuotedTexts(t *testing.T) {
	t.Parallel()
	_, tables, ok := strings.Cut(read(t, "docs/troubleshooting.md"), "\n## Error texts\n")
	if !ok {
		t.Fatal("docs/troubleshooting.md has no part Error texts")
	}
	texts := literals(t)
	joints := regexp.MustCompile("…|: |`, `|, | \\(")
	// The program puts these together of words.
	composed := []string{"there is no ./tailbox.yaml and no /etc/tailbox/tailbox.yaml", "it is there already", "it is that of pipeline", "it belongs to database",
		"connect to mysql", "connect to mariadb", "binlog_format is", "binlog_row_image is"}
	quoted := 0
	for line := range strings.Lines(tables) {
		row, found := strings.CutPrefix(line, "| `")
		text, _, closed := strings.Cut(row, "` |")
		if !found || !closed {
			continue
		}
		quoted++
		for _, piece := range joints.Split(strings.ReplaceAll(text, `\|`, "|"), -1) {
			piece = strings.Trim(piece, " :,.;()\"'`")
			if slices.Contains(composed, piece) {
				continue
			}
			if len(piece) >= 12 && !strings.Contains(texts, verb.ReplaceAllString(piece, ellipsis)) {
				t.Errorf("docs/troubleshooting.md quotes %q, of which %q stands nowhere in the program", text, piece)
			}
		}
	}
	if quoted < 100 {
		t.Errorf("%d texts are quoted, want the tables", quoted)
	}
}

// literals are all texts of the program, one a line, with an ellipsis for each verb of a format. Texts that are added up are one.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && d.IsDir() && (d.Name() == "test" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, found := textOf(e)
			if found {
				all.WriteString(verb.ReplaceAllString(text, ellipsis) + "\n")
			}
			_, sum := e.(*ast.BinaryExpr)
			return !found || !sum
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// textOf is a literal, or a sum of literals and other things, for which an ellipsis stands.
func textOf(e ast.Expr) (text string, found bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, inLeft := textOf(e.X)
			right, inRight := textOf(e.Y)
			if !inLeft {
				left = ellipsis
			}
			if !inRight {
				right = ellipsis
			}
			return left + right, inLeft || inRight
		}
	case *ast.ParenExpr:
		return textOf(e.X)
	}
	return "", false
}
