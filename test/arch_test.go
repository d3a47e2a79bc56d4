// Package test holds what is true of the whole source tree: which package may
// import which, and the limits that keep files readable. The tests of the
// product as a whole are in its subdirectories.
package test

import (
	"errors"
	"fmt"
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

const (
	module      = "github.com/tailbox/tailbox"
	maxFile     = 500 // lines
	maxFunction = 80  // lines, outside of tests
)

// rule says what a package may import, beyond the standard library.
type rule struct {
	packages *regexp.Regexp // of directories below the root
	arrows   []string       // packages of ours, as patterns for whole names
	drivers  bool           // modules of others
}

// arrows are the import arrows of the architecture; the first match counts.
// Nobody but cmd and test may import a kind (source/postgres, sink/kafka, …),
// so no pattern of theirs stands on a right side elsewhere.
func arrows() []rule {
	of := func(packages string, drivers bool, arrows ...string) rule {
		return rule{regexp.MustCompile("^(?:" + packages + ")$"), arrows, drivers}
	}
	return []rule{
		of(`outbox`, false),
		of(`outbox/outboxgorm`, true, `outbox`, `outbox/outboxsql`), // gorm's drivers are those of database/sql
		of(`outbox/outboxcqrs`, false, `outbox`),
		of(`outbox/outboxsql`, false, `outbox`), // any driver
		of(`outbox/.+`, true, `outbox`),         // writers, one a driver
		of(`source`, false, `outbox`),
		of(`sink`, false, `outbox`),
		of(`internal/(?:glob|lazyregexp|socket)`, false),
		of(`router`, false, `outbox`, `sink`, `internal/glob`),
		of(`checkpoint`, false, `source`, `outbox`),
		of(`relay`, false, `outbox`, `source`, `sink`, `router`, `checkpoint`, `relay/(?:lane|memory)`),
		of(`relay/lane`, false, `outbox`, `sink`, `router`, `checkpoint`, `relay/memory`),
		of(`relay/memory`, false),
		of(`source/sourcetest`, true, `source`, `checkpoint`, `outbox`),
		of(`source/arena`, false, `outbox`),
		of(`source/dial`, false, `internal/socket`),
		of(`source/batches`, false, `source`, `source/arena`, `outbox`),
		of(`source/columns`, false, `source`, `source/arena`, `outbox`, `internal/glob`),
		of(`source/store(/.*)?`, false, `source`, `source/columns`, `checkpoint`, `outbox`, `source/store(?:/.+)?`),
		of(`source/poll`, false, `source`, `source/batches`, `outbox`),
		of(`source/prepare`, false, `source`, `source/(?:columns|store(?:/.+)?)`, `outbox`),
		of(`sink/sinktest`, true, `sink`, `outbox`),
		// What the tests of a kind's packages share.
		of(`source/([^/]+)/[a-z]+test`, true, `source`, `source/(?:batches|sourcetest|store(?:/.+)?)`, `checkpoint`, `outbox`, `source/$1(?:/.+)?`, `test/servers`),
		// A kind in several packages keeps them below its own.
		// `tailbox send` writes as applications do, with their writers.
		of(`source/(mongo|postgres)(/.*)?`, true, `source`, `source/(?:arena|batches|columns|dial|poll|prepare|store(?:/.+)?)`, `internal/socket`, `checkpoint`, `outbox(?:/outbox(?:mongo|pgx))?`, `source/$1/.+`),
		of(`source/([^/]+)(/.*)?`, true, `source`, `source/(?:arena|batches|columns|dial|poll|prepare|store(?:/.+)?)`, `internal/socket`, `checkpoint`, `outbox`, `source/$1/.+`),
		of(`sink/([^/]+)(/.*)?`, true, `sink`, `outbox`, `internal/socket`, `sink/$1/.+`),
		of(`internal/admin(/.*)?`, true, `relay`, `checkpoint`, `internal/(?:history|trace)`, `internal/admin/.+`),
		of(`internal/api`, true, `source`, `source/store(?:/.+)?`, `checkpoint`, `outbox`, `internal/config`, `internal/(?:history|tail)`),
		of(`internal/trace`, true, `relay`, `sink`, `outbox`),
		of(`internal/client`, true, `source/store(?:/.+)?`, `checkpoint`, `internal/tail`),
		of(`internal/tail`, false, `sink`, `outbox`),
		of(`internal/console`, true, `internal/api`, `source/store/(?:view|report)`, `checkpoint`, `internal/history`),
		of(`internal/alert`, false, `source/store/report`, `checkpoint`), // pure
		of(`internal/alert/notify`, false, `internal/alert`, `sink`, `outbox`),
		// The file format fills in the configuration of the parts, never of a kind.
		of(`internal/config(/.*)?`, true, `outbox`, `source`, `sink`, `router`, `checkpoint`, `relay`, `internal/alert`, `internal/config/.+`),
		of(`internal/propose`, false, `source/store/report`, `outbox`), // pure
		of(`internal/debezium`, true, `router`, `outbox`, `sink`, `internal/lazyregexp`, `internal/debezium/forms`),
		of(`internal/debezium/forms`, true, `internal/lazyregexp`),            // texts alone
		of(`internal/demo`, true, `internal/pgserver`, `source/mysql/server`), // it knows the program by its command line; its shop connects as the relay does
		of(`internal/pgserver`, true), // the demo's server, which knows nothing of us
		of(`deploy/.+`, true, `test/servers`),
		of(`cmd/tailbox/cli`, false),
		of(`cmd/tailbox/pipeline`, true, `(?:outbox|source|sink|router|checkpoint|relay|internal)(?:/.+)?`, `cmd/tailbox/cli`),
		of(`cmd/tailbox/verbs`, false, `outbox`, `source`, `source/store(?:/.+)?`, `checkpoint`, `internal/(?:config|client|tail)`, `cmd/tailbox/(?:cli|pipeline)`),
		of(`cmd/[^/]+`, true, `(?:outbox|source|sink|router|checkpoint|relay|internal)(?:/.+)?`, `$0/.+`),
		of(`test(/.*)?`, true, `.+`),
	}
}

// file is a parsed Go file.
type file struct {
	path  string // relative to the root, with slashes
	dir   string
	test  bool // its name ends in _test.go
	set   *token.FileSet
	ast   *ast.File
	lines int
}

// goFiles parses every Go file of the repository, whatever its build tags.
func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	walk(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("parse: %v", err)
			return
		}
		files = append(files, file{
			path: path, dir: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
			set: set, ast: parsed, lines: strings.Count(string(text), "\n"),
		})
	})
	if len(files) < 20 {
		t.Fatalf("Go files found: got %d, want the whole repository", len(files))
	}
	return files
}

// walk shows every file of the repository but what is built, fetched or git's.
func walk(t *testing.T, show func(path string, text []byte)) {
	t.Helper()
	const root = ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a test of another package made it, and removed it again
		}
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		show(filepath.ToSlash(relative), text)
		return nil
	})
	if err != nil {
		t.Fatalf("read the source tree: %v", err)
	}
}

// TestImportArrows holds the import arrows of the architecture. Tests may
// import what they need, so it looks at the other files only.
func TestImportArrows(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.test || inTestdata(f.path) {
			continue
		}
		for _, spec := range f.ast.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if breach := checkImport(f.dir, imported); breach != "" {
				t.Errorf("%s: %s", f.set.Position(spec.Pos()), breach)
			}
		}
	}
}

// checkImport says what is wrong with an import by the package in dir; "" if
// nothing is.
func checkImport(dir, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	if !isOurs && !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		return "" // the standard library
	}
	for _, r := range arrows() {
		if !r.packages.MatchString(dir) {
			continue
		}
		if !isOurs {
			if r.drivers {
				return ""
			}
			return fmt.Sprintf("%s imports %s; it may import only the standard library and %v", dir, imported, r.arrows)
		}
		for _, arrow := range r.arrows {
			allowed := r.packages.ReplaceAllString(dir, arrow)
			if regexp.MustCompile("^(?:" + allowed + ")$").MatchString(ours) {
				return ""
			}
		}
		return fmt.Sprintf("%s imports %s; of ours it may import only %v", dir, ours, r.arrows)
	}
	return fmt.Sprintf("%s has no arrows; add it to the architecture and to this test", dir)
}

// TestImportArrowsSeeBreaches breaks each kind of arrow once.
func TestImportArrowsSeeBreaches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dir, imported string
		want          bool
	}{
		{"outbox", "context", true},
		{"outbox", "github.com/jackc/pgx/v5", false},
		{"outbox/outboxpgx", "github.com/jackc/pgx/v5", true},
		{"outbox/outboxpgx", module + "/source", false},
		{"outbox/outboxpgx", module + "/outbox/outboxsql", false},
		{"outbox/outboxsql", "github.com/go-sql-driver/mysql", false},
		{"outbox/outboxgorm", module + "/outbox/outboxsql", true},
		{"outbox/outboxcqrs", "github.com/jackc/pgx/v5", false},
		{"router", module + "/sink", true},
		{"router", module + "/sink/kafka", false},
		{"checkpoint", module + "/relay", false},
		{"relay", module + "/checkpoint", true},
		{"relay", module + "/source/postgres", false},
		{"relay", module + "/relay/lane", true},
		{"relay/lane", module + "/relay", false},
		{"relay/lane", module + "/source", false},
		{"relay", "github.com/prometheus/client_golang/prometheus", false},
		{"source/postgres", module + "/checkpoint", true},
		{"source/postgres", module + "/source/postgres/pgrepl", true},
		{"source/postgres", module + "/source/mysql", false},
		{"source/postgres", module + "/relay", false},
		{"sink/kafka", "github.com/segmentio/kafka-go", true},
		{"sink/kafka", module + "/sink/http", false},
		{"sink/kafka", module + "/router", false},
		{"sink/kafka", module + "/internal/config", false},
		{"internal/admin", module + "/checkpoint", true},
		{"internal/admin", module + "/source/postgres", false},
		{"internal/api", module + "/source/store/operate", true},
		{"internal/api", module + "/source/postgres", false},
		{"internal/config", module + "/sink/kafka", false},
		{"cmd/tailbox", module + "/sink/kafka", true},
		{"cmd/tailbox", module + "/cmd/tailbox/verbs", true},
		{"cmd/tailbox", module + "/test/servers", false},
		{"cmd/tailbox/verbs", module + "/source/postgres", false},
		{"cmd/tailbox/cli", module + "/checkpoint", false},
		{"internal/demo", module + "/source/postgres", false},
		{"test/e2e", module + "/test/servers", true},
		{"util", module + "/outbox", false},
	} {
		if got := checkImport(test.dir, test.imported); (got == "") != test.want {
			t.Errorf("%s -> %s: got %q, want allowed: %v", test.dir, test.imported, got, test.want)
		}
	}
}

// TestSizes holds the limits of files and functions.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.lines > maxFile {
			t.Errorf("%s: %d lines, want at most %d", f.path, f.lines, maxFile)
		}
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			start, end := f.set.Position(function.Pos()), f.set.Position(function.End())
			if lines := end.Line - start.Line + 1; lines > maxFunction {
				t.Errorf("%s: function %s has %d lines, want at most %d", start, function.Name.Name, lines, maxFunction)
			}
		}
	}
}

// TestPackageDocs wants a sentence about every package.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	documented := make(map[string]bool)
	for _, f := range goFiles(t) {
		if inTestdata(f.path) || strings.HasSuffix(f.ast.Name.Name, "_test") {
			continue
		}
		opening := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			opening = "Command " + filepath.Base(f.dir) + " "
		}
		documented[f.dir] = documented[f.dir] || f.ast.Doc != nil && strings.HasPrefix(f.ast.Doc.Text(), opening)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package doc that opens with \"Package …\", or \"Command %s …\" for a program", dir, filepath.Base(dir))
		}
	}
}

// TestNoInit wants all wiring to be visible in the code that runs.
func TestNoInit(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if function, ok := d.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				t.Errorf("%s: init()", f.set.Position(function.Pos()))
			}
		}
	}
}

// TestNoSleepInTests wants tests to wait for events.
func TestNoSleepInTests(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		name := importName(f.ast, "time")
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
					t.Errorf("%s: time.Sleep in a test; wait for an event, or poll with a ticker and a deadline", f.set.Position(s.Pos()))
				}
			}
			return true
		})
	}
}

// importName is the name under which a file knows a package; "" if it does not.
func importName(f *ast.File, path string) string {
	for _, spec := range f.Imports {
		if strings.Trim(spec.Path.Value, `"`) == path {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path
		}
	}
	return ""
}

// TestGuaranteeIsNotOverstated keeps a promise out of code and docs that no
// relay can keep: what is promised is at-least-once.
func TestGuaranteeIsNotOverstated(t *testing.T) {
	t.Parallel()
	hyphenated := regexp.MustCompile(`(?i)exactly` + `-once`)
	spelled := regexp.MustCompile(`(?i)\b(deliver|sent|send|publish|process)\w*\b.*\bexactly` + ` once|\bexactly` + ` once\b.*\b(deliver|semantic)`)
	text := []string{".go", ".md", ".yaml", ".yml", ".html", ".js", ".css", ".json", ".sql", ".txt", ".txtar", ".service", ""}
	walk(t, func(path string, content []byte) {
		if !slices.Contains(text, filepath.Ext(path)) {
			return
		}
		for i, line := range strings.Split(string(content), "\n") {
			if hyphenated.MatchString(line) || spelled.MatchString(line) {
				t.Errorf("%s:%d: promises what cannot be kept: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	})
}

// inTestdata reports whether a file is data of a test, not code of ours.
func inTestdata(path string) bool { return strings.Contains("/"+path, "/testdata/") }

// TestNoBinaries: what is built stays out of the repository.
func TestNoBinaries(t *testing.T) {
	const most = 512 << 10
	walk(t, func(path string, text []byte) {
		if len(text) > most && !strings.HasSuffix(path, ".test") {
			t.Errorf("%s: %d bytes, want at most %d: is it built, or data?", path, len(text), most)
		}
	})
}
