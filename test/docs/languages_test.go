package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

// TestLanguages runs the code of the page in programs of each language. Each pays an order, and one whose message the table refuses: of that, nothing is to be seen.
func TestLanguages(t *testing.T) {
	t.Parallel()
	const page = "docs/languages.md"
	programs, err := filepath.Glob(filepath.Join("testdata", "languages", "*"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	extensions := map[string]string{"python": ".py", "javascript": ".js", "java": ".java", "ruby": ".rb", "php": ".php"}
	code := map[string]string{} // by the name of the program
	for _, b := range blocks(read(t, page)) {
		title, _, _ := strings.Cut(strings.TrimLeft(b.text, "#/ "), "\n")
		if extension := extensions[b.info]; extension != "" && !strings.HasPrefix(b.text, "@") {
			code[title+extension] = b.text
		}
	}
	if len(code) != len(programs) {
		t.Errorf("%s has code for %d programs, and there are %d", page, len(code), len(programs))
	}
	for _, file := range programs {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			snippet, ok := code[filepath.Base(file)]
			if !ok {
				t.Fatalf("%s has no code for this program: its first line is a comment with the name", page)
			}
			runProgramOf(t, file, strings.Replace(string(text), "{{code}}", snippet, 1))
		})
	}
}

func runProgramOf(t *testing.T, file, text string) {
	language := servers.LanguageOf(t, file)
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	table, err := outbox.NewTable("debezium", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{table}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{script, "CREATE TABLE orders (id bigint PRIMARY KEY, state text)", "INSERT INTO orders VALUES (42, 'open'), (43, 'open')",
		"ALTER TABLE outbox ADD CHECK (aggregateid <> '43')"} {
		if err := pg.Exec(t.Context(), name, sql); err != nil {
			t.Fatal(err)
		}
	}
	at, err := pgx.ParseConfig(pg.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program"+filepath.Ext(file)) // not the name of what it imports
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), language.Command[0], append(language.Command[1:], program)...)
	cmd.Env = append(append(os.Environ(), language.Env...), "PGHOST="+at.Host, "PGPORT="+strconv.Itoa(int(at.Port)), "PGUSER="+at.User, "PGDATABASE="+name)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	conn, err := pgx.Connect(t.Context(), pg.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var got string
	if err := conn.QueryRow(t.Context(), `SELECT (SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM orders) || '; ' ||
		(SELECT string_agg(concat_ws(' ', aggregatetype, aggregateid, type, payload::jsonb), ', ') FROM outbox)`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := `42 paid, 43 open; order 42 OrderPaid {"order": 42}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
