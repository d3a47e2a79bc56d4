package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
)

// effective reads a file with a sink of kind smtp, whose keys it reads as a kind would.
func effective(t *testing.T, name, text string, env ...string) string {
	t.Helper()
	c, f, err := config.Read(name, []byte(text), environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Sinks {
		s := c.Sinks[i].Section
		s.Host("address")
		s.String("from", "")
		s.Map("headers")
		s.URL("webhook_url")
		s.URLs("servers")
		s.Within("auth", func(auth sink.Section) { auth.String("username", ""); auth.Secret("password") })
		s.Done()
	}
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	shown, err := f.Effective()
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// TestEffective: what counts is shown, whether it stands in the file, in the environment, or is a default; secrets are masked.
func TestEffective(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"pass": "s3cret-in-a-file\n", "ana": "s3cret-of-ana-with-20-characters\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := effective(t, filepath.Join(dir, "tailbox.yaml"), `
source:
  kind: postgres
  url: ${DATABASE_URL}
  tables: [{name: '"odd.name"', shape: yantra, router: {table.fields.additional.placement: [a:header, b:header]}}]
routes:
  - {match: {type: [email.*, sms.*], header.authorization: Bearer s3cret-match}, to: mail, retry: {attempts: 2, initial: 500ms}}
  - {to: mail}
sinks:
  mail: {kind: smtp, address: "127.0.0.1:25", from: "${FROM:-shop@example.org}", auth: {username: u, password_file: pass}}
  hook: {kind: http, webhook_url: "https://u:s3cret@hooks.example.org/services/s3cret?key=s3cret", headers: {Authorization: Bearer s3cret, "0": s3cret}}
  bus:  {kind: nats, servers: ["nats://s3cret@10.0.0.1:4222", "10.0.0.2:4222"]}
admin: {token: s3cret, tokens: [{name: ana, role: viewer, token_file: ana}]}
`, "DATABASE_URL", "postgres://tailbox:s3cret@db1:5432,db2/shop?sslmode=require&sslpassword=s3cret")
	want := `source:
  kind: postgres
  url: postgres://***@db1:5432,db2/shop?sslmode=require&***
  slot: tailbox_default
  publication: tailbox_default
  failover: false
  take_over: false
  read: log
  reconcile: 5m
  cleanup_interval: 1h
  tables:
    - shape: yantra
      name: '"odd.name"'
`
	if strings.Contains(got, "s3cret") || !strings.Contains(got, want) {
		t.Errorf("secrets, or not the source:\n%s", got)
	}
	for _, want := range []string{
		"pipeline: default\n", "table.fields.additional.placement: a:header,b:header\n", "status: status\n", "pending: pending\n", "on_delivered: mark\n",
		"  mail:\n    kind: smtp\n    address: 127.0.0.1:25\n    from: shop@example.org\n    auth:\n      username: u\n      password_file: " + filepath.Join(dir, "pass") + "\n",
		"    headers:\n      Authorization: '***'\n      \"0\": '***'\n", "webhook_url: https://***@hooks.example.org/***\n",
		"servers: ['nats://***@10.0.0.1:4222', '10.0.0.2:4222']\n", "    match:\n      type: [email.*, sms.*]\n      header.authorization: ['***']\n",
		"    retry:\n      attempts: 2\n      initial: 500ms\n      factor: 2\n      max: 1h\n      jitter: none\n", "retry:\n  attempts: 4\n  initial: 2m\n",
		"memory: 64MiB\n", "max_message: 16MiB\n", "shutdown_timeout: 30s\n",
		"admin:\n  listen: 127.0.0.1:8480\n  token: '***'\n  tokens:\n    - name: ana\n      role: viewer\n      token_file: " + filepath.Join(dir, "ana") + "\n",
		"log:\n  level: info\n  format: text\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("effective:\n%s", got)
	}
}

// TestEffectiveIsAConfiguration: without secrets, the effective configuration is a configuration, and that which it came from.
func TestEffectiveIsAConfiguration(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"defaults": "source: {kind: postgres, url: 'host=/tmp port=5433 dbname=shop'}\nsinks: {out: {kind: stdout}}\n",
		"schedule": "source: {kind: mysql, url: 'mysql://h/shop', tables: [{shape: gopipe, topic: x}]}\nsinks: {out: {kind: stdout}}\nretry: {schedule: [1s, 2m]}\n" +
			"routes: [{match: {type: a}, to: out, retry: {max: 3h}}, {to: [out], retry: {attempts: 3}}]\n",
		"mongodb":  "source: {kind: mongodb, url: 'mongodb://a:1,b:2/shop?replicaSet=rs0', tables: [{shape: flowcatalyst}]}\nsinks: {out: {kind: stdout}}\nlog: {format: json}\n",
		"columns":  "source: {kind: postgres, url: x=y, tables: [{name: shop.o, shape: tailbox, columns: {group: [a, b], receipt: r}, words: {pending: [new, old]}}]}\nsinks: {out: {kind: stdout}}\n",
		"several":  "source: {kind: postgres, url: dbname=x, tables: [{shape: yantra}, {shape: memo}]}\nsinks: {out: {kind: stdout}}\n",
		"no order": "source: {kind: postgres, url: dbname=x, tables: [{shape: tailbox, columns: {group: null, topic: null}}]}\nsinks: {out: {kind: stdout}}\nadmin: {listen: off}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text = strings.Replace(text, "x=y", "dbname=y", 1)
			once := effective(t, "f", text)
			var a, b any
			if err := errors.Join(yaml.Unmarshal([]byte(once), &a), yaml.Unmarshal([]byte(effective(t, "f", once)), &b)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("(-once +twice)\n%s\nof\n%s", diff, once)
			}
		})
	}
}

// TestMaskedAddresses: of the addresses of databases no part that may be secret is shown, however they are written.
func TestMaskedAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:s3cret@h/db":                             "postgres://***@h/db",
		"postgres://h?user=s3cret&password=s3cret":             "postgres://h/?***&***",
		"postgres://s3cret@h":                                  "postgres://***@h/",
		"postgres://%2Fvar%2Frun/db#s3cret":                    "postgres://%2Fvar%2Frun/db",
		"host=h password=s3cret dbname=d":                      "host=h *** dbname=d",
		"host=h password = 's3 \\'cret dbname=x' dbname = d":   "host=h *** dbname=d",
		"host=h password=s3\\ cret user=s3cret sslmode=verify": "host=h *** *** sslmode=verify",
		"host=h password='s3cret":                              "***",
		"s3cret":                                               "***",
	} {
		_, f, err := config.Read("f", []byte("source: {kind: postgres, url: \""+strings.ReplaceAll(url, `\`, `\\`)+"\"}\nsinks: {out: {kind: stdout}}\n"), environment())
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Effective()
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ = strings.Cut(got, "url: ")
		got, _, _ = strings.Cut(got, "\n")
		if got = strings.Trim(got, "'"); got != want {
			t.Errorf("%s became %s, want %s", url, got, want)
		}
		if hide := f.Hide(); strings.Contains(url, "password=s3cret") && strings.Contains(hide("it is s3cret"), "s3cret") {
			t.Errorf("%s: its password is not hidden", url)
		}
	}
}
