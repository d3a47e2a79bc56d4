package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

const writersPage = "docs/writers.md"

// TestWritersGo: the Go code of the page is that of examples, which tests run.
func TestWritersGo(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "outbox", "*", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root, "outbox", "example_test.go"))
	var examples []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, string(text))
	}
	n := 0
	for _, b := range blocks(read(t, writersPage)) {
		if b.info != "go" {
			continue
		}
		n++
		if !slices.ContainsFunc(examples, func(e string) bool { return strings.Contains(e, b.text) }) {
			t.Errorf("%s:%d: this code is in none of %q", writersPage, b.line, files)
		}
	}
	if n < 6 {
		t.Errorf("Go examples in %s: %d, want one a stack", writersPage, n)
	}
}

// TestWritersSQL runs the SQL of the page twice: a key that is there already changes nothing.
func TestWritersSQL(t *testing.T) {
	t.Parallel()
	n := 0
	for _, b := range blocks(read(t, writersPage)) {
		if b.info != "sql" {
			continue
		}
		n++
		title, _, _ := strings.Cut(strings.TrimPrefix(b.text, "-- "), "\n")
		shape := title[strings.LastIndex(title, " ")+1:]
		table, err := outbox.NewTable(shape, "outbox")
		if err != nil {
			t.Fatalf("%s:%d: %v", writersPage, b.line, err)
		}
		rows := map[string]string{"debezium": "2", "tailbox": "1"}[shape]
		if strings.HasPrefix(title, "Postgres") {
			runPostgres(t, b.text, table, rows)
			continue
		}
		for _, kind := range servers.MySQLKinds() {
			runMySQL(t, kind, b.text, table, rows)
		}
	}
	if n < 3 {
		t.Errorf("SQL in %s: %d blocks, want one a dialect", writersPage, n)
	}
}

func runPostgres(t *testing.T, text string, table outbox.Table, rows string) {
	t.Helper()
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{table}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{script, "CREATE TABLE orders (id int, state text)", text, text,
		"DO $$ BEGIN ASSERT (SELECT count(*) FROM outbox) = " + rows + "; END $$"} {
		if err := pg.Exec(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", table.Shape, err)
		}
	}
}

func runMySQL(t *testing.T, kind, text string, table outbox.Table, rows string) {
	t.Helper()
	my := servers.SharedMySQL(t, kind)
	name := my.NewDatabase(t)
	script, err := mysql.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{table}}, Kind: kind}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for sql := range strings.SplitSeq(script+";\nCREATE TABLE orders (id int, state text);\n"+text+text, ";\n") {
		if strings.TrimSpace(sql) != "" {
			statements = append(statements, sql)
		}
	}
	if err := my.Exec(t.Context(), name, statements...); err != nil {
		t.Errorf("%s: %v", kind, err)
	}
	conn, err := my.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := conn.Execute("SELECT COUNT(*) FROM outbox")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.GetString(0, 0); err != nil || got != rows {
		t.Errorf("%s: %s rows, %v; want %s", kind, got, err, rows)
	}
}
