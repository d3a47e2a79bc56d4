package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigShow: the configuration is printed with what the environment says and without its secrets, though no database is there.
func TestConfigShow(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, file: write(t, "tailbox.yaml", `
pipeline: shop
source: {kind: mysql, url: "${DATABASE_URL}"}
sinks: {api: {kind: http, url: "https://hooks.example.org/${HOOK}", headers: {Authorization: "Basic ${BASIC}"}}}
admin: {token: "${TOKEN}"}
`), env: map[string]string{"DATABASE_URL": "mysql://u:s3cret@nowhere.invalid/shop?tls=true", "HOOK": "s3cret", "BASIC": "s3cret", "TOKEN": "s3cret"}}
	got := r.must("config", "show")
	for _, want := range []string{"pipeline: shop\n", "url: mysql://***@nowhere.invalid/shop?tls=true\n", "url: https://hooks.example.org/***\n", "Authorization: '***'\n", "token: '***'\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(got, "s3cret") || t.Failed() {
		t.Errorf("config show:\n%s", got)
	}
	r.env["TOKEN"] = "change-me"
	if got := r.command("config", "show"); got.code != exitUsage || got.out != "" || !strings.Contains(got.err, "admin.token: is a placeholder") {
		t.Errorf("a configuration that is wrong: %+v", got)
	}
}

// TestConfigInit: the file is written once, and says what it needs; check reads it.
func TestConfigInit(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, file: filepath.Join(t.TempDir(), "new.yaml"), env: map[string]string{}}
	if got := r.must("config", "init", "--source", "mariadb", "--sink", "slack"); got != "wrote "+r.file+
		": set DATABASE_URL and SLACK_WEBHOOK_URL in the environment, and run tailbox check -c "+r.file+"\n" {
		t.Errorf("config init: %s", got)
	}
	r.env["DATABASE_URL"], r.env["SLACK_WEBHOOK_URL"] = "mysql://u@h/shop", "https://hooks.slack.com/services/x"
	r.must("check", "--offline")
	if got := r.command("config", "init", "--source", "postgres", "--sink", "kafka"); got.code != exitUsage || !strings.Contains(got.err, "is there already: name another file with -c") {
		t.Errorf("config init over a file: %+v", got)
	}
	if got := r.must("config", "init", "--source", "postgres", "--sink", "kafka", "--print"); !strings.Contains(got, "\n    kind: kafka\n") {
		t.Errorf("config init --print: %s", got)
	}
	for want, args := range map[string][]string{
		"--source is missing: say which kind it is: postgres, mysql, mariadb or mongodb": {"--sink", "kafka"},
		`--source "oracle": must be postgres, mysql`:                                     {"--source", "oracle", "--sink", "kafka"},
		`--sink "redis": must be discard, file, http`:                                    {"--source", "mysql", "--sink", "redis"},
	} {
		if got := r.command(append([]string{"config", "init"}, args...)...); got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
}
