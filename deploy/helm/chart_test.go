//go:build release

package helm_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const everything = `
image: {tag: 1.2.3}
imagePullSecrets: [{name: pull}]
env: [{name: TZ, value: UTC}]
secretFiles: files
init: {envFrom: [{secretRef: {name: owner}}]}
podLabels: {team: shop}
serviceMonitor: {enabled: true, labels: {release: prometheus}, tokenSecret: {name: token}}
networkPolicy: {enabled: true}
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: arch, operator: In, values: [amd64]}]}]}}}
`

const nothing = `
replicas: 1
envFrom: []
init: {enabled: false}
resources: {}
service: {enabled: false}
podAnnotations: {}
podDisruptionBudget: {enabled: false}
`

// TestChart renders the chart with its own values, with all that it can do, and with as little as possible.
func TestChart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tailbox")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/tailbox")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tailbox: %v\n%s", err, out)
	}
	for name, text := range map[string]string{"own values": "", "everything": everything, "nothing": nothing} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &values); err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.All("tailbox", values, "default", true).Messages {
				if m.Severity >= support.WarningSev {
					t.Errorf("helm lint: %s", m)
				}
			}
			kinds, config := decoded(t, rendered(t, values))
			want := map[string]string{
				"own values": "ConfigMap Deployment PodDisruptionBudget Service", "nothing": "ConfigMap Deployment",
				"everything": "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceMonitor",
			}[name]
			if got := strings.Join(kinds, " "); got != want {
				t.Errorf("kinds: %s, want %s", got, want)
			}
			file := filepath.Join(t.TempDir(), "tailbox.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			show := exec.CommandContext(t.Context(), program, "config", "show", "-c", file)
			show.Env = append(os.Environ(), "DATABASE_URL=postgres://db/shop", "TAILBOX_TOKEN=0123456789abcdef0123456789abcdef")
			if out, err := show.CombinedOutput(); err != nil {
				t.Errorf("tailbox does not take the configuration: %v\n%s\n%s", err, out, config)
			}
		})
	}
}

// rendered are the manifests by template.
func rendered(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	chart, err := loader.Load("tailbox")
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "shop", Namespace: "default", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// decoded reads manifests as the types of the API, which know each field, and returns their kinds and the configuration.
func decoded(t *testing.T, manifests map[string]string) (kinds []string, config string) {
	t.Helper()
	var configs core.ConfigMap
	types := map[string]any{"ConfigMap": &configs, "Deployment": &apps.Deployment{}, "Service": &core.Service{}, "PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"NetworkPolicy": &networking.NetworkPolicy{}, "ServiceMonitor": &map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		text := manifests[name]
		if strings.HasSuffix(name, "NOTES.txt") || strings.HasSuffix(name, ".tpl") || strings.TrimSpace(text) == "" {
			continue
		}
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if err := yaml.UnmarshalStrict([]byte(text), types[head.Kind]); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		kinds = append(kinds, head.Kind)
	}
	slices.Sort(kinds)
	return kinds, configs.Data["tailbox.yaml"]
}

// TestChartMemory: the collector of garbage knows the container's limit, in either unit.
func TestChartMemory(t *testing.T) {
	for limit, want := range map[string]string{"512Mi": "384MiB", "2Gi": "1536MiB", "1500M": ""} {
		values := map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": limit}}}
		var all strings.Builder
		for _, text := range rendered(t, values) {
			all.WriteString(text)
		}
		if text := all.String(); want != "" && !strings.Contains(text, "value: "+want) || (want != "") != strings.Contains(text, "GOMEMLIMIT") {
			t.Errorf("limit %s: no GOMEMLIMIT of %q in\n%s", limit, want, text)
		}
	}
}
