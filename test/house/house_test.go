package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestReport measures a small tree.
func TestReport(t *testing.T) {
	t.Parallel()
	source := func(pkg, rest string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package " + pkg + "\n" + rest)}
	}
	same := "// comment\nfunc a() error {\n\tone()\n\tif err != nil {\n\t\treturn err\n\t}\n\ttwo()\n\treturn three()\n}\n"
	var out strings.Builder
	missed, err := run(&out, fstest.MapFS{
		"source/postgres/x.go":       source("postgres", same),
		"source/mysql/x.go":          source("mysql", strings.Replace(same, "two()", "other()", 1)),
		"source/mysql/x_test.go":     source("mysql", strings.Repeat("//\n", 9999)),
		"source/sourcetest/kit.go":   source("sourcetest", strings.Repeat("//\n", 9999)),
		"test/t.go":                  source("test", strings.Repeat("//\n", 9999)),
		"relay/engine.go":            source("relay", "type inner struct{ a, b int }\ntype engine struct {\n\tinner\n\tc int\n\tx.Other\n}\nfunc (e *engine) f() {}\nfunc (e engine) g() {}\n"+strings.Repeat("//\n", 500)),
		"docs/design/column.patch":   {Data: []byte("--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n+a\n+b\n c\n-d\n--- a/x_test.go\n+++ b/x_test.go\n@@ @@\n+e\n")},
		"docs/design/many.patch":     {Data: []byte("--- a/x.go\n+++ b/x.go\n" + strings.Repeat("@@ -1 +1 @@\n+a\n", 9))},
		"source/mysql/testdata/t.go": source("testdata", "no Go"),
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"MISS lines of the longest file 509 at most 500 relay/engine.go",
		"PASS lines of the longest function 8 at most 80 a in source/mysql/x.go",
		"PASS methods of the type with most 2 at most 60 relay.engine",
		"PASS fields of the type with most, those of embedded ones included 4 at most 40 relay.engine",
		"PASS identical lines of files with one name in postgres and mysql 3 at most 150 3 of them in x.go",
		"PASS edits of docs/design/column.patch 2 at most 8 in 1 files",
		"MISS edits of docs/design/many.patch 9 at most 8 in 1 files",
		"PASS lines of product code, without tests and kits 529 at most 58000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if missed != 2 {
		t.Errorf("missed %d bounds, want 2", missed)
	}
}
