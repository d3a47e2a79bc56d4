package debezium_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

// TestPublicConfigurations: what becomes of each option of configurations in public repositories. testdata/public.txt has their options, with neutral values
// for names, addresses and secrets, each behind its fate. A line with + in front is an option that the import misses, and one with "worker:" is of the
// connector's worker. "## " begins a configuration with its origin.
func TestPublicConfigurations(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "public.txt"))
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "## ")
	var got strings.Builder
	got.WriteString(head)
	configurations := strings.Split(rest, "\n## ")
	for i, one := range configurations {
		origin, lines, _ := strings.Cut(strings.TrimSpace(one), "\n")
		fmt.Fprintf(&got, "## %s\n%s", origin, judged(t, origin, lines))
		if i < len(configurations)-1 {
			got.WriteString("\n")
		}
	}
	if len(configurations) < 40 {
		t.Errorf("%d configurations, want at least 40", len(configurations))
	}
	golden(t, "public.txt", []byte(got.String()))
}

// judged writes the lines of a configuration, each with what becomes of it now.
func judged(t *testing.T, origin, lines string) string {
	t.Helper()
	var options []string
	for line := range strings.Lines(lines) {
		if fate, option, ok := strings.Cut(strings.TrimSpace(line), "\t"); !ok {
			options = append(options, fate)
		} else if !strings.HasPrefix(option, "+") {
			options = append(options, option)
		}
	}
	report := debezium.Report(optionFiles(t, options), environment(), nil, bytea)
	told := map[string][]debezium.Option{}
	for _, o := range report {
		told[o.Key] = append(told[o.Key], o)
	}
	var b strings.Builder
	for _, option := range options {
		key, _, _ := strings.Cut(strings.TrimPrefix(option, workerOption), "=")
		if len(told[key]) == 0 {
			t.Errorf("%s: nothing is said of %s", origin, key)
			continue
		}
		fmt.Fprintf(&b, "%s\t%s\n", told[key][0].Fate, option)
		told[key] = told[key][1:]
	}
	for _, o := range report {
		for _, missing := range told[o.Key] {
			fmt.Fprintf(&b, "%s\t+%s\n", missing.Fate, missing.Key)
		}
		delete(told, o.Key)
	}
	return b.String()
}

// workerOption begins an option of a worker.
const workerOption = "worker:"

// optionFiles are the files of Debezium Server, or of a connector and its worker, with some options.
func optionFiles(t *testing.T, options []string) []debezium.File {
	t.Helper()
	var own, worker []string
	connector := map[string]string{}
	server := false
	for _, option := range options {
		if of, ok := strings.CutPrefix(option, workerOption); ok {
			worker = append(worker, of)
			continue
		}
		own, server = append(own, option), server || strings.HasPrefix(option, "debezium.")
		key, value, _ := strings.Cut(option, "=")
		connector[key] = value
	}
	if server {
		return []debezium.File{{Name: "application.properties", Data: []byte(strings.Join(own, "\n") + "\n")}}
	}
	text, err := json.Marshal(connector)
	if err != nil {
		t.Fatal(err)
	}
	return []debezium.File{{Name: "connector.json", Data: text}, {Name: "worker.properties", Data: []byte(strings.Join(worker, "\n") + "\n")}}
}
