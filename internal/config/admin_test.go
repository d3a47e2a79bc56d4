package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMetricsTokenFile: a token of the metrics that would protect nothing, or that opens more than the metrics, is refused.
func TestMetricsTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"good": "0123456789abcdef0123\n", "short": "secret7", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const base = "source: {kind: postgres, url: x}\n"
	for admin, want := range map[string]string{
		"metrics_token_file: good":  "",
		"metrics_token_file: short": "holds a token of 7 characters",
		"metrics_token_file: empty": "holds a token of 0 characters",
		"metrics_token_file: none":  "no such file",
		"metrics_token_file: ''":    "is missing: name the file",
		"metrics_token_file: good, tokens: [{name: ana, role: viewer, token_file: good}]": "holds the same token as that of ana",
		"metrics_token_file: good, token: 0123456789abcdef0123":                           "holds the same token as that of admin.token",
	} {
		got, err := read(t, dir, base+"admin: {"+admin+"}")
		switch {
		case want == "" && (err != nil || got.Admin.MetricsTokenFile != filepath.Join(dir, "good")):
			t.Errorf("%s: %v, %v", admin, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "admin.metrics_token_file") || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", admin, err, want)
		case err != nil && (strings.Contains(err.Error(), "0123456789abcdef0123") || strings.Contains(err.Error(), "secret7")):
			t.Errorf("%s: the error shows the token: %v", admin, err)
		}
	}
}
