package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	pgsession "github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/test/servers"
)

// A place is a database with a configuration file for it.
type place struct {
	t    *testing.T
	url  string
	file string
}

// newPlace makes a database and writes a configuration, in which ${DATABASE_URL} is that database.
func newPlace(t *testing.T, configuration string) *place {
	t.Helper()
	pg := servers.Shared(t, "17")
	p := &place{t: t, url: pg.URL(pg.NewDatabase(t)), file: filepath.Join(t.TempDir(), "tailbox.yaml")}
	if err := os.WriteFile(p.file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// tailbox runs a command that has to succeed, and returns what it printed.
func (p *place) tailbox(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(p.t), append(args, "-c", p.file)...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+p.url)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("tailbox %s: %v\n%s", strings.Join(args, " "), err, text.String())
	}
	return text.String()
}

func (p *place) connect() *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	return conn
}

// TestOperatingSQL runs the plain SQL of docs/operating.md against a fresh pipeline. What it asks for is understood.
func TestOperatingSQL(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "pipeline: orders\nsource: {kind: postgres, url: \"${DATABASE_URL}\", tables: [{shape: tailbox}, {shape: gopipe}]}\n"+
		"sinks: {mail: {kind: discard}}\nadmin: {listen: \"off\"}\n")
	p.tailbox("init")
	conn := p.connect()
	all := statements(t, "docs/operating.md")
	if len(all) < 10 {
		t.Fatalf("statements in docs/operating.md: got %d, want at least 10", len(all))
	}
	for i, sql := range all {
		if strings.HasPrefix(sql, "SELECT pg_drop_replication_slot") {
			// Before the end, a verb of the program: it carries out what was asked for before, too.
			p.tailbox("sink", "resume", "mail")
			requests, err := conn.Query(t.Context(), "SELECT verb || ' ' || coalesce(result::text, 'not done') FROM tailbox_request WHERE done_at IS NULL OR result->>'error' IS NOT NULL")
			if err != nil {
				t.Fatal(err)
			}
			bad, err := pgx.CollectRows(requests, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			if len(bad) > 0 {
				t.Errorf("requests that were not understood: %q", bad)
			}
		}
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("statement %d: %v\n%s", i+1, err, sql)
		}
	}
}

// TestLeastPrivilege: the owner runs what init --print prints, and the role gets what docs/postgres.md grants it, which is
// what the program itself says. With that alone it finishes init and relays.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "pipeline: least\nsource: {kind: postgres, url: \"${DATABASE_URL}\", schema: public}\nsinks: {out: {kind: discard}}\n")
	owner := p.connect()
	role := fmt.Sprintf("tailbox_%d", os.Getpid())
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	exec(p.tailbox("init", "--print"))
	grants := ""
	for _, b := range blocks(read(t, "docs/postgres.md")) {
		if strings.Contains(b.text, "GRANT ") {
			grants = b.text
		}
	}
	cfg := pgsession.Config{Config: source.Config{Pipeline: "orders", Schema: "public", Tables: []outbox.Table{
		{Schema: "public", Name: "outbox", Shape: "debezium", OnDelivered: outbox.Delete, Columns: outbox.Columns{ID: "id"}}}}}
	if want := setup.RoleSQL(cfg, "tailbox"); !strings.HasSuffix(normal(grants), normal(want)) {
		t.Errorf("grants in docs/postgres.md:\n%s\nwant at the end:\n%s", normal(grants), normal(want))
	}
	exec(regexp.MustCompile(`\btailbox\b`).ReplaceAllString(grants, role))
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	p.url = strings.Replace(p.url, "postgres://postgres@", "postgres://"+role+"@", 1)
	p.tailbox("init")
	p.tailbox("check")
}

// normal is SQL without comments, quotes and superfluous space.
func normal(sql string) string {
	var lines []string
	for line := range strings.Lines(sql) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.Join(strings.Fields(strings.ReplaceAll(line, `"`, "")), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
