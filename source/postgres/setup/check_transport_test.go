package setup

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store/check"
)

// Check warns of a session to another machine that is not encrypted, or whose server is not verified.
func TestTransport(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u@localhost/d": "", "postgres://u@127.0.0.1/d?sslmode=disable": "", "host=/var/run/postgresql user=u": "", "postgres://u@[::1]/d": "",
		"postgres://u@db.example/d?sslmode=verify-full": "", "postgres://u@db.example/d?sslmode=verify-ca": "",
		"postgres://u@db.example/d":                      "source.url goes to the database at db.example without TLS",
		"postgres://u@db.example/d?sslmode=disable":      "source.url goes to the database at db.example without TLS",
		"postgres://u@10.0.0.1/d?sslmode=require":        "source.url goes to the database at 10.0.0.1 by TLS, but nothing checks",
		"host=localhost,db.example user=u sslmode=allow": "source.url goes to the database at db.example without TLS",
	} {
		c := &checker{cfg: session.Config{Config: source.Config{URL: url, LockURL: url}}}
		c.transport()
		switch {
		case want == "" && len(c.Findings) > 0:
			t.Errorf("%s: %+v", url, c.Findings)
		case want != "" && (len(c.Findings) != 1 || c.Findings[0].Level != check.Warning || !strings.HasPrefix(c.Findings[0].What, want) || !strings.Contains(c.Findings[0].Fix, "sslmode=verify-full")):
			t.Errorf("%s: %+v, want %q", url, c.Findings, want)
		}
	}
	c := &checker{cfg: session.Config{Config: source.Config{URL: "postgres://u@localhost/d", LockURL: "postgres://u@db.example/d"}}}
	if c.transport(); len(c.Findings) != 1 || !strings.HasPrefix(c.Findings[0].What, "source.lock_url goes to") {
		t.Errorf("lock_url: %+v", c.Findings)
	}
}
