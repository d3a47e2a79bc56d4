// Package docs_test holds what people read against what the program does: the README's session is run, the configuration
// reference is compared with the program's own lists of keys, metrics with those that are registered, links with files.
package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// root is the repository.
const root = "../.."

func TestMain(m *testing.M) {
	code := servers.Main(m)
	if path, err := built(); err == nil {
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// built is the binary, built once a process.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tailbox-docs-")
	if err != nil {
		return "", fmt.Errorf("build tailbox: %w", err)
	}
	path := filepath.Join(dir, "tailbox")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tailbox/tailbox/cmd/tailbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build tailbox: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return path, nil
})

// binary is the path of the program.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// read returns a file of the repository.
func read(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// A block is fenced code in a page.
type block struct {
	info string // what follows the fence, such as console
	text string
	line int // of its first line
}

// blocks returns the fenced code of a page.
func blocks(page string) []block {
	var all []block
	var open *block
	for i, line := range strings.Split(page, "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{info: info, line: i + 2}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return all
}

// pages are the Markdown files of the repository.
func pages(tb testing.TB) []string {
	tb.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			tb.Fatal(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				tb.Fatal(err)
			}
			names = append(names, filepath.ToSlash(name))
		}
	}
	if len(names) < 10 {
		tb.Fatalf("pages found: got %q, want all of docs", names)
	}
	return names
}
