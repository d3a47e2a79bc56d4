package libraries_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// A program is tailbox with the configuration of a page, and a database.
type program struct {
	t    *testing.T
	path string
	url  string
	env  []string
	pool *pgxpool.Pool
}

// newProgram builds tailbox, and takes the configuration of a page. The pairs of replaced are texts of it and what stands there instead.
func newProgram(t *testing.T, page string, replaced ...string) *program {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "coming-from", page))
	if err != nil {
		t.Fatal(err)
	}
	return newProgramWith(t, strings.NewReplacer(replaced...).Replace(string(yamlBlock.FindSubmatch(text)[1])))
}

// newProgramWith is newProgram with a configuration.
func newProgramWith(t *testing.T, config string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, path: filepath.Join(dir, "tailbox")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.path, "./cmd/tailbox")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tailbox: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "tailbox.yaml")
	if err := os.WriteFile(file, []byte(config+"\nadmin: {listen: \"off\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))
	p.url = server.URL(server.NewDatabase(t))
	p.env = append(os.Environ(), "DATABASE_URL="+p.url, "TAILBOX_CONFIG="+file)
	var err error
	if p.pool, err = pgxpool.New(t.Context(), p.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	return p
}

// must runs a command that has to end well.
func (p *program) must(args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.path, args...)
	cmd.Env = p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("tailbox %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// A line is what the sink stdout prints for a message.
type line struct {
	Type, Topic, Group, Key string
	Payload                 json.RawMessage
}

// relay is a relay that is not started yet. The end of ctx stops it.
func (p *program) relay(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, "run")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env, cmd.Stderr = p.env, os.Stderr
	return cmd
}

// deliver runs the relay until it has printed n messages.
func (p *program) deliver(n int) (lines []line) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute) // if they never come
	defer cancel()
	cmd := p.relay(ctx)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for scan := bufio.NewScanner(out); len(lines) < n && scan.Scan(); {
		var one line
		if err := json.Unmarshal(scan.Bytes(), &one); err != nil {
			p.t.Fatalf("%s: %v", scan.Bytes(), err)
		}
		lines = append(lines, one)
	}
	cancel()
	_ = cmd.Wait() // it was told to stop
	if len(lines) < n {
		p.t.Fatalf("the relay ended after %d messages, want %d", len(lines), n)
	}
	return lines
}

// inTransaction commits what write does.
func (p *program) inTransaction(write func(tx pgx.Tx) error) {
	p.t.Helper()
	if err := pgx.BeginFunc(p.t.Context(), p.pool, write); err != nil {
		p.t.Fatal(err)
	}
}

// ask is the text of a value.
func (p *program) ask(sql string) (text string) {
	p.t.Helper()
	if err := p.pool.QueryRow(p.t.Context(), "SELECT ("+sql+")::text").Scan(&text); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return text
}
