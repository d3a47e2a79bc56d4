package main

import (
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
