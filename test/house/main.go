// Command house measures the source tree against the bounds that keep it readable: how much product code there is, how many files stand in a
// folder, how large types, files and functions are, and how much of two databases is the same to the letter. Run it from the root of the
// repository: go run ./test/house.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Bounds of the figures.
const (
	maxProductLines = 58_000
	maxFolderFiles  = 25
	maxMethods      = 60
	maxFields       = 40
	maxAlike        = 150 // lines
	maxFileLines    = 500
	maxFuncLines    = 80
	maxFindings     = 0
	maxColumnEdits  = 8 // one field and, for each of three kinds of tables, a migration
)

func main() {
	strict := flag.Bool("strict", false, "exit with 1 if a figure misses its bound")
	lint := flag.Bool("lint", true, "run the linter, which takes minutes")
	flag.Parse()
	missed, err := run(os.Stdout, os.DirFS("."), *lint)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	if *strict && missed > 0 {
		os.Exit(1)
	}
}

// A report prints figures, and counts those that miss their bounds.
type report struct {
	w      io.Writer
	missed int
}

// bound prints a figure that must be at most so large.
func (r *report) bound(what string, figure, most int, where string) {
	verdict := "PASS"
	if figure > most {
		verdict = "MISS"
		r.missed++
	}
	fmt.Fprintf(r.w, "%s  %-58s %6d  at most %5d  %s\n", verdict, what, figure, most, where)
}

// note prints something without a bound.
func (r *report) note(format string, args ...any) { fmt.Fprintf(r.w, "      "+format+"\n", args...) }

func run(w io.Writer, root fs.FS, lint bool) (missed int, err error) {
	tree, err := readTree(root)
	if err != nil {
		return 0, err
	}
	r := &report{w: w}
	r.folders(tree)
	file, lines := largest(tree.files, func(f *file) int { return f.lines })
	r.bound("lines of the longest file", lines, maxFileLines, file.path)
	fn, lines := largest(tree.functions, func(f *function) int { return f.lines })
	r.bound("lines of the longest function", lines, maxFuncLines, fn.name+" in "+fn.path)
	methods, n := largest(tree.types, func(t *typ) int { return t.methods })
	r.bound("methods of the type with most", n, maxMethods, methods.name)
	fields, n := largest(tree.types, func(t *typ) int { return tree.fieldsOf(t, nil) })
	r.bound("fields of the type with most, those of embedded ones included", n, maxFields, fields.name)
	alike, where := tree.alike("source/postgres", "source/mysql")
	r.bound("identical lines of files with one name in postgres and mysql", alike, maxAlike, where)
	if err := r.patches(root); err != nil {
		return 0, err
	}
	if lint {
		r.lint()
	}
	return r.missed, nil
}

// folders prints the lines of each package, and the folders with most files.
func (r *report) folders(tree *tree) {
	lines, files := make(map[string]int), make(map[string]int)
	total := 0
	for _, f := range tree.files {
		lines[f.dir] += f.lines
		files[f.dir]++
		total += f.lines
	}
	dirs := slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return cmp.Or(lines[b]-lines[a], strings.Compare(a, b)) })
	for _, dir := range dirs {
		r.note("%6d lines  %3d files  %s", lines[dir], files[dir], dir)
	}
	r.bound("lines of product code, without tests and kits", total, maxProductLines, "")
	slices.SortStableFunc(dirs, func(a, b string) int { return files[b] - files[a] })
	for i, dir := range dirs {
		if i == 0 || files[dir] > maxFolderFiles {
			r.bound("files in "+dir, files[dir], maxFolderFiles, "")
		}
	}
}

// largest finds the one with the largest measure; the first of several.
func largest[T any](list []*T, measure func(*T) int) (most *T, figure int) {
	for _, one := range list {
		if n := measure(one); most == nil || n > figure {
			most, figure = one, n
		}
	}
	return most, figure
}

// patches counts the edits of the worked examples in docs/design: how many places of product code one change takes.
func (r *report) patches(root fs.FS) error {
	names, err := fs.Glob(root, "docs/design/*.patch")
	if err != nil {
		return fmt.Errorf("look for worked examples: %w", err)
	}
	if len(names) == 0 {
		r.note("there is no worked example docs/design/*.patch")
	}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return fmt.Errorf("read worked example: %w", err)
		}
		edits, files := countEdits(string(text))
		r.bound("edits of "+name, edits, maxColumnEdits, fmt.Sprintf("in %d files", files))
	}
	return nil
}

// countEdits counts runs of changed lines, and the files they are in, but for tests.
func countEdits(patch string) (edits, files int) {
	test, in := false, false
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "+++ "):
			in = false
			if test = strings.Contains(line, "_test.go") || strings.Contains(line, "/testdata/"); !test {
				files++
			}
		case strings.HasPrefix(line, "--- "):
			in = false
		case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "-"):
			if !in && !test {
				edits++
			}
			in = true
		default:
			in = false
		}
	}
	return edits, files
}

// lint counts the findings of golangci-lint, which is a tool of the module tools.
func (r *report) lint() {
	path, err := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", "golangci-lint").Output()
	if err != nil {
		r.note("golangci-lint cannot be built, its findings are not counted: %v", err)
		return
	}
	out, err := exec.Command(strings.TrimSpace(string(path)), "run", "--max-issues-per-linter=0", "--max-same-issues=0", "./...").Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		r.note("golangci-lint failed, its findings are not counted: %v", err)
		return
	}
	findings := 0
	for line := range strings.Lines(string(out)) {
		if place, _, ok := strings.Cut(line, " "); ok && strings.Contains(place, ".go:") {
			findings++
		}
	}
	r.bound("findings of golangci-lint", findings, maxFindings, "")
}
