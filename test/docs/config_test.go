package docs_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink/file"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/slack"
	"github.com/tailbox/tailbox/sink/smtp"
)

// A documented key is a row of a reference.
type key struct {
	path   string // such as source.url or sinks.*.tls.ca
	byDef  string // the cell of its default
	secret bool
}

// documented are the keys of a page's tables whose head begins with "key".
func documented(t *testing.T, page string) []key {
	t.Helper()
	var keys []key
	path := regexp.MustCompile("`([a-z][a-z0-9_.*\\[\\]]*)`")
	inTable := false
	for line := range strings.Lines(read(t, page)) {
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.TrimSpace(cells[0]) == "key" {
			inTable = true
			continue
		}
		if !inTable || len(cells) < 3 {
			continue
		}
		for _, match := range path.FindAllStringSubmatch(cells[0], -1) {
			keys = append(keys, key{match[1], strings.TrimSpace(cells[1]), strings.Contains(cells[2], "*secret*")})
		}
	}
	if len(keys) == 0 {
		t.Errorf("%s documents no key", page)
	}
	return keys
}

// below are the names of the documented keys directly in a section, as the program lists them: secrets have a twin.
func below(keys []key, section string) []string {
	names := map[string]bool{}
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.path, section)
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(rest, ".")
		name = strings.TrimSuffix(name, "[]")
		names[name] = true
		if k.secret && !deeper {
			names[name+"_file"] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// asked returns what the program allows where a file has the key zzz.
func asked(t *testing.T, file string) []string {
	t.Helper()
	code, out := check(t, file)
	if code != 2 {
		t.Fatalf("exit code %d, want 2, for\n%s\n%s", code, file, out)
	}
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "zzz") {
			continue
		}
		if _, list, ok := strings.Cut(line, "(allowed: "); ok {
			list, _, _ = strings.Cut(list, ")")
			names := strings.Split(list, ", ")
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	t.Fatalf("the program does not say what is allowed in place of zzz in\n%s\n%s", file, out)
	return nil
}

// check runs tailbox check --offline.
func check(t *testing.T, file string, env ...string) (code int, out string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tailbox.yaml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`token_file: ([^,}\s]+)`).FindAllStringSubmatch(file, -1) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), m[1]), []byte("a token for "+m[1]+" that is long enough"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary(t), "check", "--offline", "-c", name)
	cmd.Env = append(os.Environ(), env...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

const (
	minimal = "source: {kind: postgres, url: \"dbname=x\"}\nsinks: {out: {kind: stdout}}\n"
	withURL = "source: {kind: postgres, url: \"dbname=x\"%s}\nsinks: {out: {kind: stdout%s}}\n"
)

// TestConfigurationReference wants the reference to list exactly the keys that the program knows, section by section.
func TestConfigurationReference(t *testing.T) {
	t.Parallel()
	keys := documented(t, "docs/configuration.md")
	for _, test := range []struct{ section, file string }{
		{"", minimal + "zzz: 1\n"},
		{"source.", fmt.Sprintf(withURL, ", zzz: 1", "")},
		{"source.tables[].", fmt.Sprintf(withURL, ", tables: [{name: x, zzz: 1}]", "")},
		{"router.", minimal + "router: {zzz: 1}\n"},
		{"routes[].", minimal + "routes: [{to: [out], zzz: 1}]\n"},
		{"retry.", minimal + "retry: {zzz: 1}\n"},
		{"retry.", minimal + "routes: [{to: [out], retry: {zzz: 1}}]\n"},
		{"sinks.*.", fmt.Sprintf(withURL, "", ", zzz: 1")},
		{"admin.", minimal + "admin: {zzz: 1}\n"},
		{"admin.tokens[].", minimal + "admin: {tokens: [{zzz: 1}]}\n"},
		{"alerts.", minimal + "alerts: {zzz: 1}\n"},
		{"log.", minimal + "log: {zzz: 1}\n"},
	} {
		t.Run(strings.TrimSuffix(test.section, "."), func(t *testing.T) {
			t.Parallel()
			want := below(keys, test.section)
			if test.section == "router." {
				want = routerOptions(keys)
			}
			got := asked(t, test.file)
			if test.section == "source." { // each kind has its own
				for _, kind := range []string{"mysql", "mongodb"} {
					got = append(got, asked(t, strings.Replace(test.file, "kind: postgres", "kind: "+kind, 1))...)
				}
				slices.Sort(got)
				got = slices.Compact(got)
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("keys of %q (-program +docs/configuration.md):\n%s", test.section, diff)
			}
		})
	}
}

// routerOptions are the documented options, whose names have dots.
func routerOptions(keys []key) []string {
	var names []string
	for _, k := range keys {
		if name, ok := strings.CutPrefix(k.path, "router."); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestSinkKindsAreDocumented wants a page for each kind of sink that the program knows.
func TestSinkKindsAreDocumented(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs/sinks/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, page := range pages {
		text.WriteString(read(t, filepath.Join("docs/sinks", filepath.Base(page))))
	}
	for _, kind := range asked(t, strings.Replace(minimal, "kind: stdout", "kind: zzz", 1)) {
		if !regexp.MustCompile(`(?m)(?:kind: |^## )` + kind + `\b`).MatchString(text.String()) {
			t.Errorf("no page in docs/sinks shows `kind: %s`", kind)
		}
	}
}

// TestSinkReferences does the same for the keys of each kind of sink.
func TestSinkReferences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		page, section, sink string
	}{
		{"docs/sinks/http.md", "sinks.*.", "kind: http, url: \"http://x\", zzz: 1"},
		{"docs/sinks/http.md", "sinks.*.tls.", "kind: http, url: \"https://x\", tls: {zzz: 1}"},
		{"docs/sinks/nats.md", "sinks.*.", "kind: nats, servers: [\"x:4222\"], zzz: 1"},
		{"docs/sinks/nats.md", "sinks.*.tls.", "kind: nats, servers: [\"x:4222\"], tls: {zzz: 1}"},
		{"docs/sinks/smtp.md", "sinks.*.", "kind: smtp, address: \"x:25\", from: a@b, zzz: 1"},
		{"docs/sinks/smtp.md", "sinks.*.tls.", "kind: smtp, address: \"x:25\", from: a@b, tls: {zzz: 1}"},
		{"docs/sinks/smtp.md", "sinks.*.auth.", "kind: smtp, address: \"x:25\", from: a@b, auth: {username: u, password: p, zzz: 1}"},
		{"docs/sinks/slack.md", "sinks.*.", "kind: slack, token: x, zzz: 1"},
		{"docs/sinks/slack.md", "sinks.*.tls.", "kind: slack, token: x, tls: {zzz: 1}"},
		{"docs/sinks/local.md", "sinks.*.", "kind: file, path: x, zzz: 1"},
		{"docs/sinks/kafka.md", "sinks.*.", "kind: kafka, brokers: [\"x:9092\"], zzz: 1"},
		{"docs/sinks/kafka.md", "sinks.*.tls.", "kind: kafka, brokers: [\"x:9092\"], tls: {zzz: 1}"},
		{"docs/sinks/kafka.md", "sinks.*.sasl.", "kind: kafka, brokers: [\"x:9092\"], sasl: {mechanism: plain, username: u, password: p, zzz: 1}"},
	} {
		t.Run(test.page+" "+test.section, func(t *testing.T) {
			t.Parallel()
			want := below(documented(t, test.page), test.section)
			if test.section == "sinks.*." {
				want = append(want, "kind") // in the general reference
				slices.Sort(want)
			}
			got := asked(t, "source: {kind: postgres, url: \"dbname=x\"}\nsinks: {s: {"+test.sink+"}}\n")
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("keys (-program +%s):\n%s", test.page, diff)
			}
		})
	}
}

// TestDocumentedDefaults sets each documented default explicitly: nothing may change.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	const alerting = "source: {kind: postgres, url: \"dbname=x\"}\nsinks: {out: {kind: http, url: \"http://x\"}}\nalerts: {to: [out]}\n"
	base := map[bool]string{false: parse(t, minimal), true: parse(t, alerting)}
	literal := regexp.MustCompile("^`([^`]+)`(?:,.*)?$")
	tested := 0
	for _, k := range documented(t, "docs/configuration.md") {
		match := literal.FindStringSubmatch(k.byDef)
		if match == nil || strings.HasPrefix(k.path, "router.") || strings.Contains(k.path, "[]") || match[1] == "url" {
			continue
		}
		tested++
		doc, file, alerts := map[string]any{}, minimal, strings.HasPrefix(k.path, "alerts.")
		if alerts {
			file = alerting
		}
		if err := yaml.Unmarshal([]byte(file), &doc); err != nil {
			t.Fatal(err)
		}
		at, steps := doc, strings.Split(k.path, ".")
		for _, step := range steps[:len(steps)-1] {
			if at[step] == nil {
				at[step] = map[string]any{}
			}
			at = at[step].(map[string]any)
		}
		at[steps[len(steps)-1]] = match[1]
		text, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(base[alerts], parse(t, string(text))); diff != "" {
			t.Errorf("%s: %s is not the default (-default +set):\n%s", k.path, match[1], diff)
		}
	}
	if tested < 15 {
		t.Errorf("defaults tested: got %d, want most of the reference", tested)
	}
}

// TestDocumentedSinkDefaults compares the defaults of sinks with those of their packages.
func TestDocumentedSinkDefaults(t *testing.T) {
	t.Parallel()
	size := func(n int) string {
		if n%(1<<20) == 0 {
			return fmt.Sprintf("%dMiB", n>>20)
		}
		return fmt.Sprintf("%dKiB", n>>10)
	}
	duration := func(d time.Duration) string {
		if text, whole := strings.CutSuffix(d.String(), "m0s"); whole {
			return text + "m"
		}
		return d.String()
	}
	for page, want := range map[string]map[string]string{
		"docs/sinks/http.md": {
			"format": string(http.DefaultFormat), "max_batch": fmt.Sprint(http.DefaultMaxBatch), "max_bytes": size(http.DefaultMaxBytes),
			"concurrency": fmt.Sprint(http.DefaultConcurrency), "timeout": duration(http.DefaultTimeout),
			"connect_timeout": duration(http.DefaultConnectTimeout), "idle_timeout": duration(http.DefaultIdleTimeout),
		},
		"docs/sinks/kafka.md": {
			"client_id": kafka.DefaultClientID, "compression": kafka.DefaultCompression, "concurrency": fmt.Sprint(kafka.DefaultConcurrency),
			"max_batch": fmt.Sprint(kafka.DefaultMaxBatch), "max_bytes": size(kafka.DefaultMaxBytes), "timeout": duration(kafka.DefaultTimeout),
			"connect_timeout": duration(kafka.DefaultConnectTimeout), "metadata_age": duration(kafka.DefaultMetadataAge),
		},
		"docs/sinks/nats.md": {
			"name": nats.DefaultName, "msg_id": nats.DefaultMsgID, "concurrency": fmt.Sprint(nats.DefaultConcurrency),
			"max_batch": fmt.Sprint(nats.DefaultMaxBatch), "max_bytes": size(nats.DefaultMaxBytes), "timeout": duration(nats.DefaultTimeout),
			"connect_timeout": duration(nats.DefaultConnectTimeout),
		},
		"docs/sinks/smtp.md": {
			"subject": smtp.DefaultSubject, "security": string(smtp.StartTLS), "concurrency": fmt.Sprint(smtp.DefaultConcurrency),
			"max_batch": fmt.Sprint(smtp.DefaultMaxBatch), "max_bytes": size(smtp.DefaultMaxBytes), "timeout": duration(smtp.DefaultTimeout),
			"max_per_connection": fmt.Sprint(smtp.DefaultMaxPerConnection), "connect_timeout": duration(smtp.DefaultConnectTimeout),
			"idle_timeout": duration(smtp.DefaultIdleTimeout),
		},
		"docs/sinks/slack.md": {
			"channel": slack.DefaultChannel, "api_url": slack.DefaultAPIURL, "concurrency": fmt.Sprint(slack.DefaultConcurrency),
			"timeout": duration(slack.DefaultTimeout), "connect_timeout": duration(slack.DefaultConnectTimeout),
		},
		"docs/sinks/local.md": {"mode": fmt.Sprintf("%#o", file.DefaultMode)},
	} {
		got := map[string]string{}
		for _, k := range documented(t, page) {
			if name := strings.TrimPrefix(k.path, "sinks.*."); want[name] != "" {
				got[name] = strings.Trim(k.byDef, "`")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("defaults (-program +%s):\n%s", page, diff)
		}
	}
}

// parse returns what can be compared of a configuration.
func parse(t *testing.T, text string) string {
	t.Helper()
	c, f, err := config.Read("tailbox.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err == nil {
		err = f.Err()
	}
	if c != nil {
		for i := range c.Sinks {
			c.Sinks[i].Section.Done()
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	routes := ""
	for _, r := range c.Router.Routes() {
		routes += fmt.Sprintf("%s %v %+v %s\n", r.Name, r.To, r.Retry, r.OnExhausted)
	}
	c.Router, c.Sinks = nil, nil
	return fmt.Sprintf("%+v\n%s", *c, routes)
}

// TestExampleConfigs wants every whole configuration on a page, and those in deploy, to be valid.
func TestExampleConfigs(t *testing.T) {
	t.Parallel()
	examples := map[string]string{"deploy/compose/tailbox.yaml": read(t, "deploy/compose/tailbox.yaml")}
	for _, page := range pages(t) {
		for _, b := range blocks(read(t, page)) {
			if strings.HasPrefix(b.info, "yaml") {
				examples[fmt.Sprintf("%s:%d", page, b.line)] = b.text
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "deploy/kubernetes/tailbox.yaml")))
	for {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := decoder.Decode(&object); err != nil {
			break
		}
		if object.Kind == "ConfigMap" {
			examples["deploy/kubernetes/tailbox.yaml"] = object.Data["tailbox.yaml"]
		}
	}
	whole := 0
	for name, text := range examples {
		if complete(t, name, &text) {
			whole++
		}
		if code, out := check(t, text, "DATABASE_URL=dbname=shop", "DIRECT_URL=dbname=shop", "TAILBOX_TOKEN=t", "KAFKA_PASSWORD=p", "NATS_PASSWORD=p", "SMTP_PASSWORD=p", "SLACK_WEBHOOK=https://x/y", "SLACK_TOKEN=t", "AUDIT_TOKEN=t"); code != 0 {
			t.Errorf("%s: exit code %d, want 0:\n%s", name, code, out)
		}
	}
	if whole < 3 {
		t.Errorf("whole configurations: got %d, want those of README and deploy", whole)
	}
}

// complete adds what a piece of a configuration lacks, and tells whether it was whole.
func complete(t *testing.T, name string, text *string) bool {
	t.Helper()
	doc := map[string]any{}
	if err := yaml.Unmarshal([]byte(*text), &doc); err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	whole := doc["source"] != nil && doc["sinks"] != nil
	source, _ := doc["source"].(map[string]any)
	if source == nil {
		source = map[string]any{}
	}
	if source["kind"] == nil {
		source["kind"], source["url"] = "postgres", "dbname=x"
	}
	doc["source"] = source
	if doc["sinks"] == nil {
		sinks := map[string]any{"out": map[string]any{"kind": "discard"}}
		routes, _ := doc["routes"].([]any)
		for _, r := range routes {
			to, _ := r.(map[string]any)["to"].([]any)
			for _, sink := range to {
				sinks[fmt.Sprint(sink)] = map[string]any{"kind": "discard"}
			}
		}
		doc["sinks"] = sinks
	}
	if whole {
		return true
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	*text = string(out)
	return false
}
