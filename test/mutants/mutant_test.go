package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestMutantsApply: every mutant still fits the code. That each is caught, `make mutants` shows.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	ms, err := load(".", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		dir := t.TempDir()
		for _, c := range m.changes {
			text, err := os.ReadFile(filepath.Join("..", "..", c.file))
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			path := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.apply(dir); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	m, err := parse("x", "what: w\nby: ./p -run T\nfile: a.go\n-- old --\nold\n-- new --\nnew\n-- end --\n")
	if err != nil {
		t.Fatal(err)
	}
	if m.what != "w" || m.by != "./p -run T" || len(m.changes) != 1 || m.changes[0] != (change{"a.go", "old", "new"}) {
		t.Errorf("got %+v", m)
	}
	for _, bad := range []string{"", "what: w\n", "nonsense\n", "what: w\nfile: a\n-- old --\nx\n"} {
		if _, err := parse("x", bad); err == nil {
			t.Errorf("parse(%q) found nothing wrong", bad)
		}
	}
}
