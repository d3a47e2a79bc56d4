package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks follows every link within the repository, to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(prose(read(t, page)), -1) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: link to %s: %v", page, match[1], err)
				continue
			}
			if fragment != "" && !anchors(read(t, file))[fragment] {
				t.Errorf("%s: link to %s: there is no such heading", page, match[1])
			}
		}
	}
}

// prose is a page without its code.
func prose(page string) string {
	for _, b := range blocks(page) {
		page = strings.Replace(page, b.text, "", 1)
	}
	return page
}

// anchors are a page's headings as GitHub links to them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for line := range strings.Lines(prose(page)) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			text := strings.ToLower(strings.TrimSpace(heading))
			all[strings.ReplaceAll(drop.ReplaceAllString(text, ""), " ", "-")] = true
		}
	}
	return all
}

// TestNamedTests wants every test that a page names as a proof to be there.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return nil // what cannot be read is not ours
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			declared[path.Dir(filepath.ToSlash(strings.TrimPrefix(name, root+"/")))+" "+match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A test is named as `test/e2e` `TestKillHTTP`: the package, then its tests.
	named := regexp.MustCompile("`([a-z0-9_/]+)`((?:[ ,]+(?:and )?`Test\\w+`)+)")
	found := 0
	for _, page := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(read(t, page), -1) {
			for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(match[2], -1) {
				found++
				if !declared[match[1]+" "+name[1]] {
					t.Errorf("%s: names the test %s in %s, which is not there", page, name[1], match[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page names a test")
	}
}
