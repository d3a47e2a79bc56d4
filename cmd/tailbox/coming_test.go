package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestComingFrom takes the configuration of each page about a library, and the library's own table and inserts: a message is delivered and another one refused,
// and the table shows both as the page promises. What the library had delivered or given up before is not delivered.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/coming-from/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); name != "README" {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testComingFrom(t, page, filepath.Join("testdata", "coming", name+".sql"))
			})
		}
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// sections are those of a file, by the name that a line begins each with.
func sections(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(data), "\n-- section: ") {
		name, text, _ := strings.Cut(part, "\n")
		found[strings.TrimSpace(name)] = strings.TrimSpace(text)
	}
	return found
}

// A heard is what a sink got of one message.
type heard struct {
	Type  string `json:"type"`
	Topic string `json:"topic"`
	Group string `json:"group"`
	Key   string `json:"key"`
}

func testComingFrom(t *testing.T, page, file string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const printed = "{kind: stdout}"
	config := string(yamlBlock.FindSubmatch(text)[1])
	if !strings.Contains(config, printed) {
		t.Fatalf("the configuration has no sink %s", printed)
	}
	config = strings.Replace(config, printed, "{kind: file, path: lines.json}, hook: {kind: http, url: \"${HOOK}\", format: single}", 1)
	config = strings.Replace(config, "kind: postgres", "kind: postgres\n  slot: \"${SLOT}\"", 1) + "\nretry: {attempts: 1}\nroutes: [{to: [out, hook]}]\nadmin: {listen: \"off\"}\n"
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "refuse-me") {
			http.Error(w, "no", http.StatusUnprocessableEntity)
			return
		}
		if !strings.Contains(string(body), "good-one") {
			t.Errorf("a body without the text: %q", body)
		}
	}))
	t.Cleanup(hook.Close)
	s := sections(t, file)
	r := newRig(t, config)
	r.env["HOOK"] = hook.URL
	r.sql(s["ddl"])
	if history := s["history"]; history != "" { // rows of which the library had made an end
		r.sql(history)
	}
	r.must("init")
	r.must("check")
	stop := r.relay()
	r.sql(s["good"])
	r.sql(s["refused"])
	until(t, "the good message", func() bool { return r.ask(strings.TrimSuffix(s["delivered"], ";")) == "true" })
	until(t, "the dead letter", func() bool { return r.ask(strings.TrimSuffix(s["dead"], ";")) == "true" })
	if list := r.must("dead", "list"); strings.Count(list, "answered 422") != 1 {
		t.Errorf("dead letters:\n%s", list)
	}
	if ended := stop(); ended.code != exitDone {
		t.Errorf("run: %+v", ended)
	}
	var want heard
	if err := json.Unmarshal([]byte(s["want"]), &want); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(r.lines)
	if err != nil {
		t.Fatal(err)
	}
	var got heard
	first, _, _ := strings.Cut(string(lines), "\n")
	if err := json.Unmarshal([]byte(first), &got); err != nil || got != want || strings.Count(string(lines), "\n") != 2 {
		t.Errorf("delivered %s, want %+v first, and two: %v", lines, want, err)
	}
}
