package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/test/servers"
)

const (
	alertsFile     = "deploy/prometheus/alerts.yaml"
	alertTestsFile = "deploy/prometheus/alerts_test.yaml"
	runbooksPage   = "docs/runbooks.md"
	runbooksURL    = "https://github.com/tailbox/tailbox/blob/main/docs/runbooks.md#"
)

// An alertRule is one rule of alerts.yaml.
type alertRule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	var all []alertRule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("alerts: got %d", len(all))
	}
	return all
}

// promtool runs Prometheus' own program for rules, which has to be content.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out := runProgram(t, servers.Promtool(t), args...); !strings.Contains(out, "SUCCESS") {
		t.Errorf("promtool %s:\n%s", strings.Join(args, " "), out)
	}
}

// TestAlertRules: Prometheus takes the rules, and each alert fires for what is bad, not for what is good, and clears.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", filepath.Join(root, alertsFile))
	promtool(t, "check", "config", filepath.Join(root, "deploy/prometheus/prometheus.yaml"))
	promtool(t, "test", "rules", filepath.Join(root, alertTestsFile))
}

// TestAlertsAreTested: each alert has a test of its name, in which nothing fires at first, then it does, and at the end nothing any more.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Name      string
			Series    []struct{ Series string } `yaml:"input_series"`
			ExprTests []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, alertTestsFile)), &file); err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, c := range file.Tests {
		if len(c.ExprTests) == 0 {
			continue
		}
		name, _, _ := strings.Cut(c.Name, ":")
		fires := make([]bool, len(c.ExprTests))
		for i, e := range c.ExprTests {
			if e.Expr != `ALERTS{alertstate="firing"}` {
				t.Errorf("test %s looks at %s only", c.Name, e.Expr)
			}
			for _, s := range e.Samples {
				fires[i] = fires[i] || strings.Contains(s.Labels, `alertname="`+name+`"`)
			}
			if (i == 0 || i == len(c.ExprTests)-1) && len(e.Samples) > 0 {
				t.Errorf("test %s: something fires at its beginning or end", c.Name)
			}
		}
		tested[name] = tested[name] || slices.Equal(fires, []bool{false, true, false})
		for _, pipeline := range []string{"orders", "stock"} {
			if !slices.ContainsFunc(c.Series, func(s struct{ Series string }) bool { return strings.Contains(s.Series, `pipeline="`+pipeline+`"`) }) {
				t.Errorf("test %s has no series of pipeline %s", c.Name, pipeline)
			}
		}
	}
	for _, r := range alertRules(t) {
		if !tested[r.Alert] {
			t.Errorf("%s has no test of alert %s", alertTestsFile, r.Alert)
		}
	}
}

// TestAlertsSayWhatToDo: each alert has a severity, says which pipeline and sink it is about, by labels that it has, and where its runbook is.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	sections := runbooks(t)
	named := regexp.MustCompile(`\$labels\.(\w+)`)
	seen := map[string]bool{}
	for _, r := range alertRules(t) {
		if seen[r.Alert] {
			t.Errorf("alert %s stands twice", r.Alert)
		}
		seen[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("alert %s has severity %q", r.Alert, s)
		}
		for _, key := range []string{"summary", "description"} {
			text := r.Annotations[key]
			checkTemplate(t, r.Alert, r.Expr, named.FindAllStringSubmatch(text, -1))
			for _, label := range []string{"pipeline", "sink"} {
				if kept(r.Expr, label) && !strings.Contains(text, "$labels."+label) {
					t.Errorf("alert %s: its %s does not name the %s: %s", r.Alert, key, label, text)
				}
			}
			if text == "" {
				t.Errorf("alert %s has no %s", r.Alert, key)
			}
		}
		if want := runbooksURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("alert %s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if _, ok := sections[r.Alert]; !ok {
			t.Errorf("%s has no section for alert %s", runbooksPage, r.Alert)
		}
	}
	for name, text := range sections {
		if !seen[name] {
			t.Errorf("%s: there is no alert %s", runbooksPage, name)
		}
		for _, part := range []string{"**Means.**", "**Look.**", "**Do.**"} {
			if !strings.Contains(text, "\n"+part) {
				t.Errorf("%s: section %s has no part %s", runbooksPage, name, part)
			}
		}
	}
}

// kept reports whether what a query returns has a label: all that it groups by do.
func kept(query, label string) bool {
	groupings := regexp.MustCompile(`\bby \(([^)]*)\)`).FindAllStringSubmatch(query, -1)
	return len(groupings) > 0 && !slices.ContainsFunc(groupings, func(g []string) bool { return !slices.Contains(strings.Split(g[1], ", "), label) })
}

// runbooks returns the sections of docs/runbooks.md that are named like alerts.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	sections := map[string]string{}
	name := ""
	for line := range strings.Lines(read(t, runbooksPage)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name = strings.TrimSpace(heading)
		}
		if strings.HasPrefix(name, "Tailbox") {
			sections[name] += line
		}
	}
	return sections
}

// TestRunbookCommands: what the runbooks tell people to type exists, with its flags, and so do the pages of the console that they name.
func TestRunbookCommands(t *testing.T) {
	t.Parallel()
	page := read(t, runbooksPage)
	commands := map[string]map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)(?:^\\$ |`)(tailbox [^`\n]+)").FindAllStringSubmatch(page, -1) {
		var words []string
		flags := map[string]bool{}
		for _, word := range strings.Fields(m[1]) {
			switch plain := regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word); {
			case strings.HasPrefix(word, "--"):
				flags[word] = true
			case plain && len(flags) == 0:
				words = append(words, word)
			}
		}
		key := strings.Join(words, " ")
		if commands[key] == nil {
			commands[key] = map[string]bool{}
		}
		for f := range flags {
			commands[key][f] = true
		}
	}
	if len(commands) < 8 {
		t.Errorf("commands in %s: got %v", runbooksPage, commands)
	}
	for command, flags := range commands {
		help := runProgram(t, binary(t), append(strings.Fields(command)[1:], "-h")...)
		if !strings.Contains(help, command) {
			t.Errorf("%s: there is no command %s; its help is:\n%s", runbooksPage, command, help)
		}
		for f := range flags {
			if !strings.Contains(help, f) {
				t.Errorf("%s: %s has no flag %s", runbooksPage, command, f)
			}
		}
	}
	pages := read(t, "docs/console.md")
	for _, m := range regexp.MustCompile(`console: ([A-Z]\w+)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(pages, "| "+m[1]+" |") {
			t.Errorf("%s: the console has no page %s", runbooksPage, m[1])
		}
	}
}
