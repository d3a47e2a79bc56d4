package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// A result is what a command line did.
type result struct {
	code     int
	out, err string
}

// tailbox runs a command line in the process.
func tailbox(ctx context.Context, in string, args ...string) result {
	var out, err bytes.Buffer
	sh := &cli.Shell{In: strings.NewReader(in), Out: &out, Err: &err, Now: make(chan struct{}),
		Env: func(string) (string, bool) { return "", false }}
	code := run(ctx, sh, args)
	return result{code, out.String(), err.String()}
}

// write makes a file in a folder of the test's own.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// leaves lists all command lines without their arguments.
func leaves(c *cli.Command, path []string) [][]string {
	if c.Run != nil {
		return [][]string{path}
	}
	var all [][]string
	for _, sub := range c.Sub {
		all = append(all, leaves(sub, append(append([]string(nil), path...), sub.Name))...)
	}
	return all
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	lines := leaves(root(), nil)
	if len(lines) < 20 {
		t.Errorf("%d commands, want them all", len(lines))
	}
	lines = append(lines, nil, []string{"dead"}, []string{"group"}, []string{"sink"})
	for _, line := range lines {
		r := tailbox(t.Context(), "", append(line, "-h")...)
		if r.code != exitDone || r.err != "" {
			t.Errorf("%v -h: exit code %d, stderr %q", line, r.code, r.err)
		}
		for _, want := range []string{"usage: tailbox", "\nexample:\n  tailbox "} {
			if !strings.Contains(r.out, want) {
				t.Errorf("%v -h: no %q in\n%s", line, want, r.out)
			}
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	good := write(t, "good.yaml", "source: {kind: postgres, url: 'host=/nowhere'}\nsinks: {a: {kind: stdout}, b: {kind: discard}}\nroutes: [{to: [a, b]}]\nadmin: {listen: off}\n")
	bad := write(t, "bad.yaml", "source: {kind: postgres, url: x}\nsinks:\n  a: {kind: http, url: 'ftp://x', timeout: 0s, tls: {cert: c.pem}, max_batches: 3}\n  b: {kind: redis}\n  c: {kind: file, mode: rw}\n  d: {kind: discard, x: y}\nroutes: [{to: [a]}]\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                  {nil, "name a command, such as tailbox demo"},
		"unknown command":          {[]string{"runn"}, `unknown command "runn": choose one of demo, init,`},
		"unknown command below":    {[]string{"dead", "lst"}, `unknown command "dead lst": choose one of list,`},
		"unknown flag":             {[]string{"run", "--fast"}, "run: flag provided but not defined: -fast: see tailbox run -h"},
		"argument too many":        {[]string{"run", "now"}, `run: unexpected argument "now"`},
		"no file":                  {[]string{"run", "-c", "/nowhere.yaml"}, "open /nowhere.yaml: no such file"},
		"wrong file":               {[]string{"run", "-c", bad}, "bad.yaml:"},
		"replay of nothing":        {[]string{"dead", "replay", "-c", good}, "nothing is selected"},
		"state":                    {[]string{"dead", "list", "-c", good, "--state", "failed"}, `invalid value "failed" for flag -state: must be a list of dead, retrying, waiting`},
		"limit":                    {[]string{"dead", "list", "-c", good, "--limit", "-1"}, "must not be negative"},
		"output":                   {[]string{"dead", "list", "-c", good, "-o", "xml"}, "must be text, wide, json or csv"},
		"since":                    {[]string{"dead", "list", "-c", good, "--since", "yesterday"}, "must be a duration such as 30m, 24h or 7d, or a time such as"},
		"audit of a word":          {[]string{"audit", "x", "-c", good}, `audit "x": must be the id of a request`},
		"drop without a reason":    {[]string{"dead", "drop", "x", "-c", good}, "say why with --why"},
		"edit of two":              {[]string{"dead", "edit", "x", "y", "-c", good}, "name one message"},
		"edit of nothing":          {[]string{"dead", "edit", "x", "-c", good}, "say what to change"},
		"group without a name":     {[]string{"group", "skip", "-c", good}, "name the groups"},
		"sink without a name":      {[]string{"sink", "pause", "-c", good}, "name the sinks: a, b"},
		"unknown sink":             {[]string{"sink", "pause", "c", "-c", good}, `there is no sink "c": the configuration has a, b`},
		"gap without a reason":     {[]string{"accept-gap", "-c", good}, "say why with --why"},
		"send nothing":             {[]string{"send", "-c", good, "--type", "t"}, "give one payload"},
		"send without a type":      {[]string{"send", "{}", "-c", good}, "give the message's type"},
		"send to an unknown table": {[]string{"send", "{}", "-c", good, "--type", "t", "--table", "x"}, `there is no table "x": the configuration has outbox`},
		"send two topics":          {[]string{"send", "{}", "-c", good, "--type", "t", "--group", "a:b", "--topic", "c"}, "are both in column aggregatetype"},
		"send half a group":        {[]string{"send", "{}", "-c", good, "--type", "t", "--group", "a"}, "makes it of its columns aggregatetype, aggregateid"},
		"send headers":             {[]string{"send", "{}", "-c", good, "--type", "t", "--header", "a=b"}, "--header: table outbox: it has no column"},
		"send half a header":       {[]string{"send", "{}", "-c", good, "--header", "a"}, "must be NAME=VALUE"},
		"demo of another database": {[]string{"demo", "--source", "oracle"}, "choose postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tailbox(t.Context(), "", c.args...)
			if r.code != exitUsage || !strings.Contains(r.err, c.want) || r.out != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", r.code, r.out, r.err, c.want)
			}
		})
	}
}

func TestSinkProblemsAreToldWithTheirLines(t *testing.T) {
	t.Parallel()
	bad := write(t, "bad.yaml", `source: {kind: postgres, url: x}
sinks:
  a: {kind: http, url: 'ftp://x', format: xml, tls: {cert: c.pem, cb: x}, max_batches: 3}
  b: {kind: redis}
  c: {kind: file, mode: rw}
  d: {kind: discard, x: y}
routes: [{to: [a]}]
`)
	r := tailbox(t.Context(), "", "check", "--offline", "-c", bad)
	var got []string
	for line := range strings.Lines(r.err) {
		_, rest, _ := strings.Cut(line, "bad.yaml:")
		rest, _, _ = strings.Cut(rest, " (allowed")
		got = append(got, strings.TrimSuffix(rest, "\n"))
	}
	want := []string{
		"1: source.url: must be a URI such as postgres://user@host:5432/database, or libpq keywords such as host=/var/run/postgresql dbname=shop: invalid keyword/value",
		"3: sinks.a.tls.cb: unknown key",
		"3: sinks.a.max_batches: unknown key",
		"3: sinks.a.url: not allowed: want an absolute URL, http://… or https://…",
		`3: sinks.a.format: "xml" is not allowed: want array, single, cloudevents or cloudevents-batch`,
		`3: sinks.a.tls.key: "" is not allowed: want a PEM file, because tls.cert is set`,
		`4: sinks.b.kind "redis": is not built into this version; available: ` + "discard, file, http, kafka, nats, slack, smtp, stdout",
		`5: sinks.c.mode "rw": must be permission bits, such as 0640`,
		`5: sinks.c.path: "" is not allowed: want the path of a file`,
		"6: sinks.d.x: unknown key",
	}
	if r.code != exitUsage || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("exit code %d, problems:\n%s\nwant:\n%s", r.code, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOfflineFindsWhatNeedsNoServer: check reports every mistake that it can find without a server in one run, each with its key, value and fix. It
// never prints the password.
func TestOfflineFindsWhatNeedsNoServer(t *testing.T) {
	t.Parallel()
	bad := write(t, "bad.yaml", `source: {kind: postgres, url: 'postgres://u:secret@h:99999/d', lock_url: 'host=h port=0 password=secret', reconcile: -1s}
sinks:
  a: {kind: http, url: 'http://u:secret@h:70000/x', timeout: 0s, connect_timeout: -1s, idle_timeout: 0s, concurrency: 0}
  b: {kind: kafka, brokers: ['h:0', 'h:65536'], timeout: 0s, metadata_age: 0s}
  c: {kind: file, path: ./x/../lines.json}
  d: {kind: file, path: lines.json}
routes: [{to: [a, b, c, d]}]
retry: {initial: 0s}
shutdown_timeout: -5s
admin: {listen: '127.0.0.1:65536'}
`)
	r := tailbox(t.Context(), "", "check", "--offline", "-c", bad)
	for _, want := range []string{
		"1: source.url: must be a URI", "1: source.lock_url: must be a URI", `1: source.reconcile "-1s": must be a duration`,
		`3: sinks.a.url: "port 70000" is not allowed: want a port from 1 to 65535`, `3: sinks.a.timeout "0s": must be above 0s`,
		`3: sinks.a.connect_timeout "-1s": must be a duration`, `3: sinks.a.idle_timeout "0s": must be above 0s`,
		`3: sinks.a.concurrency "0": must be a number from 1 to 10000`,
		`4: sinks.b.brokers: "h:0" is not allowed: want host:port`, `4: sinks.b.brokers: "h:65536" is not allowed`, `4: sinks.b.timeout "0s"`,
		`4: sinks.b.metadata_age "0s"`, "6: sinks.d.path", "is the file of sink c already", "8: retry.initial", `9: shutdown_timeout "-5s"`,
		`10: admin.listen "127.0.0.1:65536": must have a port from 1 to 65535`,
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("no %q", want)
		}
	}
	if r.code != exitUsage || strings.Contains(r.err, "secret") || t.Failed() {
		t.Errorf("exit code %d:\n%s", r.code, r.err)
	}
}

// A URL that cannot be read may have a password in any part of it.
func TestUnreadableURLsAreNotShown(t *testing.T) {
	t.Parallel()
	for kind, urls := range map[string][]string{
		"postgres": {"host=h user=u password=top s3cret dbname=d", "postgresql+asyncpg://u:s3cret@h/db?sslmode=require", "mysql://u:s3cret@h/db?tls=true", "postgres://u:s3cr#et@h:x/db"},
		"mysql":    {"mysql://u:s3cr/et@h/db", "mysql://u:s3cr#et@h/db", "mysql://u:s3cr%zzet@h/db"},
	} {
		for _, url := range urls {
			file := write(t, "bad.yaml", "source: {kind: "+kind+", url: '"+url+"'}\nsinks: {a: {kind: stdout}}\n")
			r := tailbox(t.Context(), "", "check", "--offline", "-c", file)
			if r.code != exitUsage || strings.Contains(r.err, "s3cr") || !strings.Contains(r.err, "source.url") {
				t.Errorf("%s: exit code %d:\n%s", url, r.code, r.err)
			}
		}
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"edit", "id", "--payload", "x", "--", "-y"}, "name one message"},
		{[]string{"edit", "--payload", "x", "id", "--sink", "b", "id2"}, "name one message"},
		{[]string{"edit", "id", "--payload=x", "-c", "/nowhere.yaml"}, "/nowhere.yaml"},
	} {
		if r := tailbox(t.Context(), "", append([]string{"dead"}, c.args...)...); !strings.Contains(r.err, c.want) {
			t.Errorf("%v: stderr %q, want %q", c.args, r.err, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := tailbox(t.Context(), "", "version")
	if r.code != exitDone || !strings.HasPrefix(r.out, "tailbox ") || !strings.Contains(r.out, " go1.") {
		t.Errorf("exit code %d, stdout %q", r.code, r.out)
	}
}

func TestConfigurationIsFound(t *testing.T) {
	t.Parallel()
	good := write(t, "good.yaml", "source: {kind: postgres, url: 'host=/nowhere'}\nsinks: {a: {kind: discard}}\n")
	env := map[string]string{}
	offline := func(args ...string) result {
		var out, err bytes.Buffer
		sh := &cli.Shell{In: strings.NewReader(""), Out: &out, Err: &err, Now: make(chan struct{}),
			Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
		return result{run(t.Context(), sh, append([]string{"check", "--offline"}, args...)), out.String(), err.String()}
	}
	if r := offline(); r.code != exitUsage || !strings.Contains(r.err, "name one with -c FILE or $TAILBOX_CONFIG") {
		t.Errorf("nothing is there: %+v", r)
	}
	env["TAILBOX_CONFIG"] = good
	if r := offline(); r.code != exitDone {
		t.Errorf("$TAILBOX_CONFIG: %+v", r)
	}
	if r := offline("-c", "/nowhere.yaml"); r.code != exitUsage || !strings.Contains(r.err, "/nowhere.yaml") {
		t.Errorf("-c wins: %+v", r)
	}
}

// writeFile replaces a file.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
