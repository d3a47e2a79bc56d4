package main

import (
	"net/http"
	"strings"
	"testing"
)

// proxied is how a proxy sends a request on.
func proxied(user, role string, more ...string) func(*http.Request) {
	return func(r *http.Request) {
		if user != "" {
			r.Header.Set("X-User", user)
		}
		if role != "" {
			r.Header.Set("X-Role", role)
		}
		for i := 0; i+1 < len(more); i += 2 {
			r.Header.Add(more[i], more[i+1])
		}
	}
}

// TestTrustedProxy: whom a trusted proxy names may do what the role allows, without a token. What it says of nobody, or wrongly, lets nobody in, and a page of
// another site cannot use its word.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	a := newAPIRigWith(t, apiConfig+"  trusted_proxies: [\"127.0.0.0/8\"]\n  user_header: X-User\n  role_header: X-Role\n")
	a.send("a1", "a:1", `{"x": "bad"}`)
	until(t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })
	all := map[string]any{"all": true}
	own := "http://" + a.env["ADMIN"]
	for _, c := range []struct {
		role, method, path string
		body               any
		change             func(*http.Request)
		status             int
		says               string
	}{
		{"", "GET", "/deliveries", nil, proxied("", ""), 401, "token"},
		{"", "GET", "/deliveries", nil, proxied("", "admin"), 401, "token"},
		{"", "GET", "/deliveries", nil, proxied("vic", "viewer"), 200, "permanent"},
		{"", "GET", "/config", nil, proxied("vic", "viewer"), 403, "vic has the role viewer"},
		{"", "GET", "/deliveries", nil, proxied("vic", "boss"), 403, "X-Role"},
		{"", "GET", "/deliveries", nil, proxied("vic", ""), 403, "X-Role"},
		{"", "GET", "/deliveries", nil, proxied("<b>vic</b>", "viewer"), 403, "X-User"},
		{"", "GET", "/deliveries", nil, proxied("vic", "viewer", "X-Role", "admin"), 403, "twice"},
		{"viewer", "GET", "/config", nil, proxied("root", "admin"), 403, "vera"},
		{"", "POST", "/deliveries:replay", all, proxied("vic", "viewer", "Origin", own), 403, "viewer"},
		{"", "POST", "/deliveries:replay", all, proxied("oli@example.org", "operator"), 403, "Origin"},
		{"", "POST", "/deliveries:replay", all, proxied("oli@example.org", "operator", "Origin", "https://evil.example"), 403, "Origin"},
		{"", "POST", "/deliveries:replay", all, proxied("oli@example.org", "operator", "Origin", own), 202, "request"},
	} {
		if got := a.callAs(c.role, c.method, c.path, c.body, c.change); got.status != c.status || !strings.Contains(got.text, c.says) {
			t.Errorf("%s %s as %q: %d %s, want %d %s", c.method, c.path, c.role, got.status, got.text, c.status, c.says)
		}
	}
	if list := a.ok("viewer", "GET", "/requests", nil); strings.Count(list.text, `"by"`) != 1 || !strings.Contains(list.text, `"by":"oli@example.org"`) {
		t.Errorf("the audit: %s", list.text)
	}

	page := func(change func(*http.Request)) (status int, text string) {
		t.Helper()
		got := a.callAs("", "GET", "/../../", nil, change)
		return got.status, got.text
	}
	if status, text := page(proxied("oli@example.org", "operator")); status != http.StatusOK || !strings.Contains(text, "oli@example.org, operator") {
		t.Errorf("the console: %d %s", status, text)
	}
	if status, text := page(proxied("vic", "boss")); status != http.StatusForbidden || !strings.Contains(text, "X-Role") {
		t.Errorf("the console in an unknown role: %d %s", status, text)
	}
	if _, text := page(proxied("", "")); !strings.Contains(text, "Log in") {
		t.Errorf("the console without a name: %s", text)
	}

	// Only the peer counts, and not what it says of itself.
	a.stop()
	writeFile(t, a.file, apiConfig+"  trusted_proxies: [10.1.2.3]\n  user_header: X-User\n  role_header: X-Role\n")
	a.start()
	if got := a.callAs("", "GET", "/deliveries", nil, proxied("oli", "operator", "X-Forwarded-For", "10.1.2.3")); got.status != http.StatusUnauthorized {
		t.Errorf("another peer: %+v", got)
	}
}
