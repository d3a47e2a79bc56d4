package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestMetricsToken: with a token of their own, only its holder and those of the API read the metrics. A new token counts at once, the one before no longer,
// and the command line brings it. Health needs none.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	r, _ := newEndpointRig(t)
	const first, second = "the-first-token-of-prometheus", "the-second-token-of-prometheus"
	file := filepath.Join(filepath.Dir(r.file), "prometheus")
	writeFile(t, file, first+"\n")
	a := newAPIRigOn(t, r, strings.Replace(apiConfig, "admin:\n", "admin:\n  metrics_token_file: prometheus\n", 1))
	a.start()
	status := func(path, token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.env["ADMIN"]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if refused := resp.StatusCode == http.StatusUnauthorized; refused != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: status %d, WWW-Authenticate %q", path, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
		}
		return resp.StatusCode
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", "", http.StatusUnauthorized}, {"/metrics", second, http.StatusUnauthorized}, {"/metrics", first, http.StatusOK},
		{"/metrics", tokenOf("viewer"), http.StatusOK}, {"/healthz", "", http.StatusOK}, {"/readyz", "", http.StatusOK},
		// It opens nothing else.
		{"/api/v1/pipeline", first, http.StatusUnauthorized}, {"/api/v1/pipeline", tokenOf("viewer"), http.StatusOK},
	} {
		if got := status(c.path, c.token); got != c.want {
			t.Errorf("%s with the token %q: status %d, want %d", c.path, c.token, got, c.want)
		}
	}
	if got := r.must("sink", "list"); !strings.Contains(got, " open ") {
		t.Errorf("the command line knows no states:\n%s", got)
	}
	writeFile(t, file, second+"\n")
	if got := []int{status("/metrics", first), status("/metrics", second)}; got[0] != http.StatusUnauthorized || got[1] != http.StatusOK {
		t.Errorf("after the token was replaced: statuses %v", got)
	}
	writeFile(t, file, "short\n")
	if got := status("/metrics", "short"); got != http.StatusUnauthorized {
		t.Errorf("with a file that holds no token: status %d", got)
	}
}
