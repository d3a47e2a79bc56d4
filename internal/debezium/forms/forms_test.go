package forms_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium/forms"
)

// TestOption: words without quotes are booleans of YAML 1.1, and texts in quotes.
func TestOption(t *testing.T) {
	t.Parallel()
	documents, err := forms.ReadYAML([]byte("a: no\nb: \"no\"\nc: ON\nd: 'on'\ne: 010\nf: |\n  off\ng: \"010\"\nh: 1_000\ni: 0x1F\nj: 1e3\nk: 1.10\nl: -5\nm: .inf\nn: 2024-01-02\n"))
	if err != nil || len(documents) != 1 {
		t.Fatalf("%d documents: %v", len(documents), err)
	}
	var got []string
	for _, f := range documents[0].Fields {
		got = append(got, f.Value.Option())
	}
	if all := strings.Join(got, ","); all != "false,no,true,on,8,off\n,010,1000,31,1000,1.1,-5,.inf,2024-01-02" {
		t.Errorf("%q", all)
	}
}

// TestScriptConnectors: connectors are found in words, in here-documents and in blocks of code of Markdown, with what a shell makes of backslashes.
func TestScriptConnectors(t *testing.T) {
	t.Parallel()
	const connector = `{"connector.class": "x", "regex": "(.*)\\b", "host": "HOST"}`
	host := func(text string) string { return strings.Replace(connector, "HOST", text, 1) }
	for name, c := range map[string]struct{ script, host string }{
		"a word":          {"curl -d '" + host("db") + "'", "db"},
		"a here-document": {"H=db\ncurl -d @- <<JSON\n" + strings.ReplaceAll(host("$H"), `\`, `\\`) + "\nJSON\n", "db"},
		"Markdown":        {"It's so:\n\n```sh\nH=db\n```\n\n~~~\ncurl -d '" + host(`'$H'`) + "'\n~~~\n", "db"},
		"a reference":     {"curl -d '" + host(`'"${H:-db}"'`) + "'", "${shell:H:-db}"},
		"no script":       {"(", ""},
	} {
		found, err := forms.ScriptConnectors([]byte(c.script))
		if err != nil || (len(found) == 1) != (c.host != "") {
			t.Errorf("%s: %d connectors, %v", name, len(found), err)
			continue
		}
		if c.host != "" && (found[0].Is("host") != c.host || found[0].Is("regex") != `(.*)\b`) {
			t.Errorf("%s: %+v", name, found[0])
		}
	}
}
