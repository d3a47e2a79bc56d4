package docs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestMetricsOfARelay scrapes a relay that runs, and compares what it serves with the reference, the alert rules and the dashboard.
func TestMetricsOfARelay(t *testing.T) {
	t.Parallel()
	families := scrape(t)
	t.Run("each series has the pipeline", func(t *testing.T) {
		for name, f := range families {
			if f.series[0]["pipeline"] != "shop" || slices.ContainsFunc(f.series, func(s labels) bool { return s["pipeline"] != "shop" }) {
				t.Errorf("%s: a series has no label pipeline: %v", name, f.series)
			}
		}
		for _, name := range []string{"go_goroutines", "process_start_time_seconds", "tailbox_leader"} {
			if _, ok := families[name]; !ok {
				t.Errorf("the relay serves no %s", name)
			}
		}
	})
	t.Run("reference", func(t *testing.T) { compareReference(t, families) })
	t.Run("rules", func(t *testing.T) {
		for _, r := range alertRules(t) {
			checkQuery(t, families, r.Alert, r.Expr)
		}
	})
	t.Run("dashboard", func(t *testing.T) {
		for _, p := range dashboard(t).Panels {
			for _, target := range p.Targets {
				checkQuery(t, families, p.Title, target.Expr)
			}
		}
	})
}

// A family is one metric that a relay serves.
type family struct {
	kind   string
	series []labels
}

type labels map[string]string

// names are the names of all labels of a family.
func (f *family) names() map[string]bool {
	names := map[string]bool{}
	for _, s := range f.series {
		for name := range s {
			names[name] = true
		}
	}
	return names
}

// scrape runs a relay that uses all features with metrics of their own, and returns what it serves.
func scrape(t *testing.T) map[string]*family {
	t.Helper()
	p := newPlace(t, "pipeline: shop\nsource:\n  kind: postgres\n  url: \"${DATABASE_URL}\"\n"+
		"  tables: [{name: outbox, shape: tailbox, feedback: {dead: \"UPDATE orders SET state = 'failed' WHERE id::text = :key\"}}]\n"+
		"sinks: {mail: {kind: discard}}\nadmin: {listen: \"127.0.0.1:0\"}\nlog: {format: json}\n")
	conn := p.connect()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE orders (id bigint PRIMARY KEY, state text)"); err != nil {
		t.Fatal(err)
	}
	p.tailbox("init", "--create-table")
	resp, err := http.Get("http://" + p.start() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || len(parsed) < 30 {
		t.Fatalf("metrics: got %d, %v", len(parsed), err)
	}
	families := map[string]*family{}
	for name, m := range parsed {
		f := &family{kind: strings.ToLower(m.GetType().String())}
		for _, one := range m.GetMetric() {
			s := labels{}
			for _, l := range one.GetLabel() {
				s[l.GetName()] = l.GetValue()
			}
			f.series = append(f.series, s)
		}
		families[name] = f
	}
	return families
}

// start runs a relay until the test ends, and returns the address of its metrics.
func (p *place) start() string {
	p.t.Helper()
	cmd := exec.Command(binary(p.t), "run", "-c", p.file)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+p.url)
	out, err := cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			p.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("run: %v", err)
		}
	})
	var seen bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct{ Msg, Address string }
		seen.WriteString(lines.Text() + "\n")
		if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Msg == "serving metrics and health" {
			return line.Address
		}
	}
	p.t.Fatalf("the relay tells no address:\n%s", seen.String())
	return ""
}

// compareReference wants docs/metrics.md to name all metrics of ours and no others, with their kinds and labels.
func compareReference(t *testing.T, families map[string]*family) {
	served, documented := map[string]string{}, map[string]string{}
	for name, f := range families {
		if strings.HasPrefix(name, "tailbox_") {
			own := f.names()
			delete(own, "pipeline")
			served[name] = f.kind + " " + strings.Join(slices.Sorted(maps.Keys(own)), ", ")
		}
	}
	for line := range strings.Lines(read(t, "docs/metrics.md")) {
		if !strings.HasPrefix(line, "| `tailbox_") {
			continue
		}
		cells := strings.Split(line, "|")
		names := strings.Split(strings.TrimSpace(cells[3]), ", ")
		slices.Sort(names)
		for _, match := range regexp.MustCompile("`(tailbox_\\w+)`").FindAllStringSubmatch(cells[1], -1) {
			documented[match[1]] = strings.TrimSpace(cells[2]) + " " + strings.Join(names, ", ")
		}
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("metrics in docs/metrics.md differ from those that a relay serves (-served +documented):\n%s", diff)
	}
}

var (
	selector = regexp.MustCompile(`\b((?:tailbox|process|go)_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// checkQuery wants each selector of a query to match series that a relay has, by labels that these have, and groupings to name labels that there are.
// What Prometheus adds to each series counts as well.
func checkQuery(t *testing.T, families map[string]*family, of, query string) {
	t.Helper()
	known := map[string]bool{"job": true, "instance": true}
	found := selector.FindAllStringSubmatch(query, -1)
	if len(found) == 0 {
		t.Errorf("%s: names no metric: %s", of, query)
	}
	for _, s := range found {
		part := regexp.MustCompile(`_(bucket|sum|count)$`)
		f := families[s[1]]
		if f == nil {
			if f = families[part.ReplaceAllString(s[1], "")]; f == nil || f.kind != "histogram" {
				t.Errorf("%s: a relay serves no metric %s", of, s[1])
				continue
			}
			known["le"] = true
		}
		maps.Copy(known, f.names())
		series := slices.Clone(f.series)
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			name, op, value := m[1], m[2], m[3]
			if name == "job" {
				continue
			}
			if !f.names()[name] {
				t.Errorf("%s: metric %s has no label %s", of, s[1], name)
			}
			if strings.HasPrefix(value, "$") {
				continue
			}
			pattern := regexp.MustCompile("^(?:" + value + ")$")
			if op == "=" || op == "!=" {
				pattern = regexp.MustCompile("^" + regexp.QuoteMeta(value) + "$")
			}
			series = slices.DeleteFunc(series, func(l labels) bool { return pattern.MatchString(l[name]) != (op[0] == '=') })
		}
		if len(series) == 0 {
			t.Errorf("%s: a relay has no series that is selected by %s", of, s[0])
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); !known[name] {
				t.Errorf("%s: groups by %s, which no metric of the query has: %s", of, name, query)
			}
		}
	}
}

// A grafana is a dashboard, as far as it is looked at.
type grafana struct {
	Panels []struct {
		Type, Title string
		Datasource  *struct{ UID string }
		Targets     []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Datasource *struct{ UID string }
			Query      any
		}
	}
}

func dashboard(t *testing.T) (g grafana) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/tailbox.json")), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestDashboard: each panel shows the data source and the pipelines that are chosen, its legend names labels that its query keeps, and its queries can be parsed.
func TestDashboard(t *testing.T) {
	t.Parallel()
	g := dashboard(t)
	variables := map[string]string{}
	for _, v := range g.Templating.List {
		variables[v.Name] = v.Type
		if v.Type == "query" && (v.Datasource == nil || v.Datasource.UID != "${datasource}") {
			t.Errorf("variable %s does not ask the chosen data source", v.Name)
		}
		if query, _ := v.Query.(map[string]any); v.Name == "pipeline" && query["query"] != `label_values(tailbox_build_info{job=~"$job"}, pipeline)` {
			t.Errorf("variable pipeline asks %v", v.Query)
		}
	}
	if diff := cmp.Diff(map[string]string{"datasource": "datasource", "job": "query", "pipeline": "query"}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	var queries strings.Builder
	queries.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, p := range g.Panels {
		if p.Type != "row" && (p.Datasource == nil || p.Datasource.UID != "${datasource}") {
			t.Errorf("panel %s does not ask the chosen data source", p.Title)
		}
		for _, target := range p.Targets {
			for _, s := range selector.FindAllStringSubmatch(target.Expr, -1) {
				if !strings.HasPrefix(s[2], `job=~"$job",pipeline=~"$pipeline"`) {
					t.Errorf("panel %s: %s does not select the chosen jobs and pipelines", p.Title, s[0])
				}
			}
			checkTemplate(t, p.Title, target.Expr, regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1))
			n++
			fmt.Fprintf(&queries, "  - {record: panel_%d, expr: %q}\n", n, strings.NewReplacer("$__rate_interval", "5m", "$job", ".+", "$pipeline", ".+").Replace(target.Expr))
		}
	}
	if n < 20 {
		t.Errorf("the dashboard has %d queries", n)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(queries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// checkTemplate wants the labels that a text names to be labels of what the query returns.
func checkTemplate(t *testing.T, of, query string, named [][]string) {
	t.Helper()
	groupings := grouping.FindAllStringSubmatch(query, -1)
	for _, m := range named {
		for _, g := range groupings {
			if strings.HasPrefix(g[0], "by") && !slices.Contains(strings.Split(strings.ReplaceAll(g[1], " ", ""), ","), m[1]) {
				t.Errorf("%s: names the label %s, by which %s does not group", of, m[1], query)
			}
		}
	}
}

// runProgram runs a program that has to succeed.
func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}
