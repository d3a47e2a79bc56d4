package libraries_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// program of testdata runs a library of another language against the same database.
func (p *program) other(file string, env []string, args ...string) {
	p.t.Helper()
	language := servers.LanguageOf(p.t, file)
	command := append(language.Command[1:], filepath.Join("testdata", file))
	cmd := exec.CommandContext(p.t.Context(), language.Command[0], append(command, args...)...)
	cmd.Env = append(append(append(p.env, language.Env...), env...), "DATABASE_URL="+p.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s %s: %v\n%s", file, strings.Join(args, " "), err, out)
	}
}

// TestPgTransactionalOutbox: messages that the library stores are delivered, and its table shows them as processed.
func TestPgTransactionalOutbox(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "pg-transactional-outbox.md")
	p.other("pg-transactional-outbox.js", nil, "setup")
	p.must("init")
	p.must("check")
	p.other("pg-transactional-outbox.js", nil, "1", "2")
	lines := p.deliver(2)
	for i, order := range []string{"1", "2"} {
		if l := lines[i]; l.Type != "order_paid" || l.Topic != "order" || l.Key != order || l.Group != "order-"+order || string(l.Payload) != `{"order": `+order+`}` {
			t.Errorf("delivered %+v", l)
		}
	}
	if left := p.ask("SELECT count(*) FROM public.outbox WHERE processed_at IS NULL OR abandoned_at IS NOT NULL OR finished_attempts = 0"); left != "0" {
		t.Errorf("%s messages are not processed", left)
	}
}

// TestDjangoOutboxPattern: messages that the library writes when a model is saved are delivered, and its table shows them as succeeded.
func TestDjangoOutboxPattern(t *testing.T) {
	t.Parallel()
	folder, err := servers.PythonFolder()
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(t, "django-outbox-pattern.md")
	env := []string{"PYTHONPATH=" + folder}
	p.other("django-outbox-pattern.py", env, "setup")
	p.must("init")
	p.must("check")
	p.other("django-outbox-pattern.py", env, "1", "2")
	lines := p.deliver(2)
	for _, l := range lines {
		if l.Topic != "orders.v1" || !strings.Contains(string(l.Payload), `"customer": "c7"`) {
			t.Errorf("delivered %+v", l)
		}
	}
	if left := p.ask("SELECT count(*) FROM published WHERE status <> 2"); left != "0" {
		t.Errorf("%s messages are not succeeded", left)
	}
}
