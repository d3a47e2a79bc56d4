package docs_test

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestExamplesNeedTokens: the examples in deploy do not start with a token that everybody knows.
func TestExamplesNeedTokens(t *testing.T) {
	t.Parallel()
	if text := read(t, "deploy/compose/compose.yaml"); !strings.Contains(text, "TAILBOX_TOKEN: ${TAILBOX_TOKEN:?") {
		t.Error("the compose example starts without a token of one's own")
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "deploy/kubernetes/tailbox.yaml")))
	var kinds []string
	var config, token string
	for {
		var object struct {
			Kind       string
			Data       map[string]string
			StringData map[string]string `yaml:"stringData"`
		}
		if err := decoder.Decode(&object); err != nil {
			break
		}
		kinds = append(kinds, object.Kind)
		config += object.Data["tailbox.yaml"]
		token += object.StringData["TAILBOX_TOKEN"]
	}
	if code, out := check(t, config, "DATABASE_URL=dbname=shop", "TAILBOX_TOKEN="+token); code != 2 || !strings.Contains(out, "admin.token: is a placeholder") {
		t.Errorf("the Kubernetes example with its token %q: exit code %d, want 2:\n%s", token, code, out)
	}
	if !slices.Contains(kinds, "NetworkPolicy") {
		t.Errorf("the Kubernetes example has no NetworkPolicy: %v", kinds)
	}
}
