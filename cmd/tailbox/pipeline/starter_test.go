package pipeline

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// TestStarters loads the starter of each pair of a database and a sink, as it is, and with every key that it shows.
func TestStarters(t *testing.T) {
	t.Parallel()
	urls := map[string]string{"postgres": "postgres://u:p@h/shop", "mysql": "mysql://u:p@h/shop", "mariadb": "mysql://u:p@h/shop", "mongodb": "mongodb://u:p@h/shop?replicaSet=rs0"}
	shown := regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`)
	sources, sinks := StarterKinds()
	for _, source := range sources {
		for _, sink := range sinks {
			text, err := Starter(source, sink)
			if err != nil {
				t.Fatal(err)
			}
			env := map[string]string{"DATABASE_URL": urls[source], "DIRECT_URL": urls[source], "SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/x"}
			for _, name := range StarterNeeds(text) {
				if env[name] == "" {
					t.Errorf("%s to %s needs %s, which nothing tells how to write", source, sink, name)
				}
			}
			for name, text := range map[string]string{"as it is": text, "with every key": shown.ReplaceAllString(text, "$1$2")} {
				dir := t.TempDir()
				put(t, dir, "ana.token", strings.Repeat("x", 48))
				put(t, dir, "tailbox.yaml", text)
				var out bytes.Buffer
				sh := &cli.Shell{Out: &out, Err: &out, Env: func(variable string) (string, bool) {
					if v, ok := env[variable]; ok || name == "as it is" {
						return v, ok
					}
					return "x", true // of a key that is shown, such as a password
				}}
				p, err := Load(t.Context(), sh, filepath.Join(dir, "tailbox.yaml"))
				if err != nil {
					t.Errorf("%s to %s, %s: %v\n%s", source, sink, name, err, text)
					continue
				}
				if p.Config.Source.Kind != source || len(p.Config.Sinks) != 1 || p.Config.Sinks[0].Kind != sink {
					t.Errorf("%s to %s is %s to %v", source, sink, p.Config.Source.Kind, p.Config.Sinks)
				}
			}
			if again := shown.FindAllString(text, -1); len(again) < 5 {
				t.Errorf("%s to %s shows only %q", source, sink, again)
			}
		}
	}
}
