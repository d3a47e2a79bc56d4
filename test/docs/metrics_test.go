package docs_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/internal/admin"
)

// registered are the names of all metrics of ours.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	reg := prometheus.NewRegistry()
	if _, err := admin.NewMetrics(reg, admin.Labels{Pipeline: "p", Sinks: []string{"s"},
		Routes:   []admin.RouteLabels{{Name: "r", Sinks: []string{"s"}}},
		Feedback: []admin.FeedbackLabels{{Table: "t", Outcome: "dead"}}}); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	return names
}

// TestMetricsReference wants docs/metrics.md to name all metrics and no others.
func TestMetricsReference(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/metrics.md")) {
		if !strings.HasPrefix(line, "| `tailbox_") {
			continue
		}
		for _, match := range regexp.MustCompile("`(tailbox_\\w+)`").FindAllStringSubmatch(strings.SplitN(line, "|", 3)[1], -1) {
			documented[match[1]] = true
		}
	}
	got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(registered(t)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics in docs/metrics.md differ from those that are registered (-registered +documented):\n%s", diff)
	}
}

// TestDashboardAndAlerts wants every metric in them to be registered.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	known := registered(t)
	for _, name := range []string{"deploy/grafana/tailbox.json", "deploy/prometheus/alerts.yaml"} {
		found := 0
		for _, metric := range regexp.MustCompile(`tailbox_\w+`).FindAllString(read(t, name), -1) {
			found++
			if !known[metric] && !known[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")] {
				t.Errorf("%s: metric %s is not registered", name, metric)
			}
		}
		if found == 0 {
			t.Errorf("%s names no metric", name)
		}
	}
	// Each alert is explained.
	explained := read(t, "docs/metrics.md")
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yaml"), -1) {
		if !strings.Contains(explained, "| "+match[1]+" |") {
			t.Errorf("docs/metrics.md: alert %s is not explained", match[1])
		}
	}
}
