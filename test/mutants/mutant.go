package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A mutant is one file *.patch of this folder:
//
//	what: one line that says what is broken
//	by: sim                                  (the default: an invariant of test/sim)
//	schedules: 30000                         (where it takes more of them than usual)
//	file: relay/settle.go
//	-- old --
//	text that stands in the file once and no more
//	-- new --
//	text that takes its place
//	-- end --
//
// and further files and texts; the last line end of a text is not part of it. by may also be duplicates (nothing breaks, there are only more duplicates), or the
// arguments of go test that name the package and the test which sees it.
type mutant struct {
	name, what, by string
	schedules      int // 0: as many as usual
	changes        []change
}

type change struct{ file, from, to string }

const (
	bySim        = "sim"
	byDuplicates = "duplicates"
)

// load reads the mutants of a folder, in the order of their names.
func load(dir string, pick *regexp.Regexp) ([]*mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, fmt.Errorf("list mutants: %w", err)
	}
	var ms []*mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !pick.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read mutant: %w", err)
		}
		m, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("read mutant %s: %w", name, err)
		}
		ms = append(ms, m)
	}
	if len(ms) == 0 {
		return nil, errors.New("no mutant has such a name")
	}
	return ms, nil
}

func parse(name, text string) (*mutant, error) {
	m := &mutant{name: name, by: bySim}
	file := ""
	var into *strings.Builder
	var from, to strings.Builder
	for i, line := range strings.SplitAfter(text, "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.TrimSpace(line) == "-- old --":
			from.Reset()
			to.Reset()
			into = &from
		case strings.TrimSpace(line) == "-- new --":
			into = &to
		case strings.TrimSpace(line) == "-- end --":
			m.changes = append(m.changes, change{file, strings.TrimSuffix(from.String(), "\n"), strings.TrimSuffix(to.String(), "\n")})
			into = nil
		case into != nil:
			into.WriteString(line)
		case key == "what":
			m.what = value
		case key == "by":
			m.by = value
		case key == "schedules":
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			m.schedules = n
		case key == "file":
			file = value
		case strings.TrimSpace(line) != "":
			return nil, fmt.Errorf("line %d is neither what, by, file nor a text", i+1)
		}
	}
	if m.what == "" || len(m.changes) == 0 || into != nil {
		return nil, errors.New("it needs a line what, and texts that end")
	}
	return m, nil
}

// apply makes the mutant in a tree; undo takes it back.
func (m *mutant) apply(dir string) (undo func() error, err error) {
	before := map[string][]byte{}
	undo = func() error {
		var errs []error
		for path, text := range before {
			errs = append(errs, os.WriteFile(path, text, 0o644))
		}
		return errors.Join(errs...)
	}
	for _, c := range m.changes {
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read what it changes: %w", err), undo())
		}
		if n := strings.Count(string(text), c.from); n != 1 {
			return nil, errors.Join(fmt.Errorf("its text stands %d times in %s, not once: bring it up to date with the code:\n%s",
				n, c.file, c.from), undo())
		}
		if _, ok := before[path]; !ok {
			before[path] = text
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o644); err != nil {
			return nil, errors.Join(fmt.Errorf("write it: %w", err), undo())
		}
	}
	return undo, nil
}

// copyTree copies what go test needs: everything but hidden folders.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(e.Name(), ".") && rel != "."
		switch {
		case e.IsDir() && hidden:
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case hidden || !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
}
