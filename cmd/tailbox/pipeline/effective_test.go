package pipeline

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// planted is in every secret of the configuration, but for those that have a form of their own.
const planted = "s3cret"

// everySecret has a secret in every key that can hold one.
const everySecret = `
source: {kind: postgres, url: "postgres://u:s3cret@h/db?sslpassword=s3cret", lock_url: "host=h password='s3cret x' dbname=db"}
admin: {token: s3cret-of-all, tokens: [{name: ana, role: viewer, token_file: ana}]}
routes: [{to: [hook, user, kafka, bus, seed, credited, tokened, slack, bot, mail, lines]}]
sinks:
  hook: {kind: http, url: "https://hooks.example.org/services/s3cret?key=s3cret", bearer: s3cret, headers: {X-Api: s3cret}, pass_headers: [Cookie]}
  user: {kind: http, url: "https://u:s3cret@hooks.example.org/"}
  kafka: {kind: kafka, brokers: ["127.0.0.1:9092"], sasl: {mechanism: plain, username: u, password: s3cret}, tls: {ca: ca.pem}}
  bus: {kind: nats, servers: ["tls://h:4222"], username: u, password: s3cret}
  tokened: {kind: nats, servers: ["tls://h:4222"], token: s3cret}
  seed: {kind: nats, servers: ["tls://h:4222"], nkey: "SEED"}
  credited: {kind: nats, servers: ["tls://h:4222"], creds: "CREDS"}
  slack: {kind: slack, webhook_url: "https://hooks.slack.com/services/s3cret"}
  bot: {kind: slack, token: xoxb-s3cret, api_url: "https://slack.example/api"}
  mail: {kind: smtp, address: "h:587", from: a@example.org, auth: {username: u, password: s3cret}}
  lines: {kind: file, path: lines.json}
`

// secretFields are the fields of configurations that hold a secret, and so are masked. shownFields are the other ones that hold a text.
func secretFields() []string {
	return []string{"Config.Source.URL", "Config.Source.LockURL", "Config.Admin.Token", "http.URL", "http.Bearer", "http.Headers", "kafka.SASL.Password",
		"nats.Password", "nats.Token", "nats.NKey", "nats.Credentials", "slack.WebhookURL", "slack.Token", "smtp.Auth.Password"}
}

var shownFields = regexp.MustCompile(`^(Config\.(Pipeline|Source\.(Kind|Slot|Publication|Schema|Start|Messages|LeftOff\.(Position|GTIDs))|Sinks\.(Name|Kind)|Admin\.(Listen|Hosts|URL|CertFile|KeyFile|MetricsTokenFile|UserHeader|RoleHeader|Tokens\.(Name|Role|File))|Alerts\.To)` +
	`|[a-z]+\.(TLS\.(CA|Cert|Key|ServerName)|(SASL|Auth)\.(Mechanism|Username))` +
	`|file\.(Name|Path)|http\.(Format|PassHeaders)|kafka\.(Brokers|Topics|ClientID|Compression)` +
	`|nats\.(Servers|Stream|Subjects|Name|Username|InboxPrefix|MsgID)|slack\.APIURL|smtp\.(Address|From|EnvelopeFrom|Security|Helo)|stdout\.Name)$`)

// TestEverySecretIsMasked plants a secret in every key that can hold one, in the file and in the file that its twin with _file names. A field of a
// configuration that is new fails the test until it is judged here.
func TestEverySecretIsMasked(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds := fmt.Sprintf("-----BEGIN NATS USER JWT-----\ns3cret.jwt\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", seed)
	text := strings.NewReplacer("SEED", string(seed), "CREDS", strings.ReplaceAll(creds, "\n", `\n`)).Replace(everySecret)
	inFiles := regexp.MustCompile(`\b(url|lock_url|token|bearer|password|nkey|creds|webhook_url): ("[^"]*"|[^,}]+)`)
	for name, text := range map[string]string{"in keys": text, "in files": text} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if name == "in files" {
				n := 0
				text = inFiles.ReplaceAllStringFunc(text, func(pair string) string {
					key, value, _ := strings.Cut(pair, ": ")
					n++
					file := fmt.Sprintf("secret%d", n)
					put(t, dir, file, strings.ReplaceAll(strings.Trim(value, `"`), `\n`, "\n"))
					return key + "_file: " + file
				})
			}
			put(t, dir, "ana", "s3cret-of-ana-with-20-characters")
			put(t, dir, "tailbox.yaml", text)
			var stderr bytes.Buffer
			sh := &cli.Shell{Out: &stderr, Err: &stderr, Env: func(string) (string, bool) { return "", false }}
			p, err := Load(t.Context(), sh, filepath.Join(dir, "tailbox.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			found := map[string][]string{}
			texts(reflect.ValueOf(*p.Config), "Config", found)
			for i, spec := range p.specs {
				texts(reflect.ValueOf(spec), p.Config.Sinks[i].Kind, found)
			}
			for _, field := range secretFields() {
				if len(found[field]) == 0 {
					t.Errorf("%s holds no secret: plant one", field)
				}
				for _, secret := range found[field] {
					if !strings.Contains(secret, planted) && secret != string(seed) {
						t.Errorf("%s holds %q: plant the secret", field, secret)
					}
					if strings.Contains(p.Effective, secret) {
						t.Errorf("%s is shown", field)
					}
				}
				delete(found, field)
			}
			for field := range found {
				if !shownFields.MatchString(field) {
					t.Errorf("may %s hold a secret? Then read it by Secret, URL, URLs or Map, and name it in secretFields; else name it in shownFields", field)
				}
			}
			if strings.Contains(p.Effective, planted) || strings.Contains(p.Effective, string(seed)) {
				t.Errorf("a secret is shown:\n%s", p.Effective)
			}
			for _, want := range []string{"max_batch: 2000\n", "timeout: 30s\n", "brokers: ['127.0.0.1:9092']\n"} {
				if !strings.Contains(p.Effective, want) {
					t.Errorf("no %q in\n%s", want, p.Effective)
				}
			}
		})
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// texts collects the fields that can hold a text, with the texts that they hold, or none.
func texts(v reflect.Value, path string, into map[string][]string) {
	switch v.Type() {
	case reflect.TypeFor[outbox.Table](), reflect.TypeFor[router.Router](), reflect.TypeFor[config.Section](), reflect.TypeFor[sink.Pick]():
		return // names of columns, templates and patterns
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		texts(v.Elem(), path, into)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				texts(v.Field(i), path+"."+v.Type().Field(i).Name, into)
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			texts(reflect.New(v.Type().Elem()).Elem(), path, into)
		}
		for i := range v.Len() {
			texts(v.Index(i), path, into)
		}
	case reflect.Map:
		if v.Len() == 0 {
			texts(reflect.New(v.Type().Elem()).Elem(), path, into)
		}
		for _, key := range v.MapKeys() {
			texts(v.MapIndex(key), path, into)
		}
	case reflect.String:
		if into[path] = append(into[path], nil...); v.String() != "" {
			into[path] = append(into[path], v.String())
		} else if into[path] == nil {
			into[path] = []string{}
		}
	}
}
