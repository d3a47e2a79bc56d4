package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Whatever is sent to the API or the console, by whomever, is answered, and never with a fault of the server.
func FuzzAPI(f *testing.F) {
	for _, in := range inputs() {
		path, query, _ := strings.Cut(in.path, "?")
		f.Add(true, "/api/v1"+path, query, `{"ids": ["x"], "groups": ["g"], "why": "w", "id": "x", "type": "t", "dry_run": true}`)
		f.Add(false, "/api/v1"+path, query, "")
	}
	for _, path := range []string{"/", "/login", "/failures", "/deliveries", "/messages/x", "/message", "/groups", "/sinks", "/source", "/audit", "/audit/1", "/live", "/live/stream", "/config",
		"/static/console.css", "/static/\x8a", "/static/", "/nowhere", "/readyz", "/metrics"} {
		f.Add(false, path, "state=dead&sink=api&group=g&cursor=1&to=%2F", "")
	}
	for _, verb := range []string{"replay", "drop", "edit", "hold-groups", "resume-groups", "skip-groups", "replay-groups", "pause-sink", "resume-sink", "dance"} {
		f.Add(true, "/do/"+verb, "", "ids=x&groups=g&sink=api&why=w&confirmed=yes&id=x&payload=a&old_payload=b")
		f.Add(true, "/do/"+verb, "", "ids=x&groups=g&sink=api&why=w&id=x&payload=a&old_payload=b&back=//x")
	}
	a := newAPIRig(f)
	b := a.browser()
	b.send(http.MethodPost, "/login", url.Values{"token": {tokenOf("admin")}})
	f.Fuzz(func(t *testing.T, post bool, path, query, body string) {
		method := http.MethodGet
		if post {
			method = http.MethodPost
		}
		if post && strings.Trim(path, "/") == "logout" {
			t.Skip() // all that comes later would come without a session
		}
		to := url.URL{Scheme: "http", Host: a.env["ADMIN"], Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		req, err := http.NewRequestWithContext(t.Context(), method, to.String(), strings.NewReader(body))
		if err != nil {
			t.Skip() // nobody can ask that
		}
		req.Header.Set("Origin", b.base)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(path, "/api/") {
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+tokenOf("admin"))
		}
		resp, err := b.http.Do(req)
		if err != nil {
			t.Fatalf("%s %s %q: %v", method, to.String(), body, err)
		}
		if resp.Header.Get("Content-Type") == "text/event-stream" {
			_ = resp.Body.Close() // it has no end
			return
		}
		text, err := io.ReadAll(resp.Body)
		if string(text) == "400 Bad Request" {
			_ = resp.Body.Close() // net/http's own answer to what is no HTTP. It closes before it has read all, which may reset the connection
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable || resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "SQLSTATE") {
			t.Errorf("%s %s %q: %d %s", method, to.String(), body, resp.StatusCode, text)
		}
	})
}
