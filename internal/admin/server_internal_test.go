package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestReadyzSaysWhy: why the relay is not ready may name the database's user and host, so other machines hear it with the token alone.
func TestReadyzSaysWhy(t *testing.T) {
	t.Parallel()
	const why = "failed to connect to user=relay database=shop"
	for _, c := range []struct {
		from, token, given, proxy, host string
		want                            bool
	}{
		{from: "127.0.0.1:5", want: true},
		{from: "[::1]:5", token: "t", want: true},
		{from: "192.0.2.7:5", token: "t"},
		{from: "192.0.2.7:5", token: "t", given: "wrong"},
		{from: "192.0.2.7:5", token: "t", given: "t", want: true},
		{from: "192.0.2.7:5", given: ""},
		{from: "127.0.0.1:5", token: "t", proxy: "192.0.2.7"},
		{from: "127.0.0.1:5", token: "t", proxy: "192.0.2.7", given: "t", want: true},
		{from: "@", token: "t"},
		{from: "127.0.0.1:5", host: "evil.example"},
		{from: "127.0.0.1:5", host: "127.0.0.1:8480", want: true},
		{from: "[::1]:5", host: "[::1]:8480", want: true},
	} {
		for status, ready := range map[int]bool{http.StatusServiceUnavailable: false, http.StatusOK: true} {
			h := handler(Config{Known: func(r *http.Request) bool { return c.token != "" && r.Header.Get("Authorization") == "Bearer "+c.token }, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
				Ready: func() (bool, string, string) { return ready, "state", why }})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
			r.RemoteAddr, r.Host = c.from, "localhost:8480"
			if c.host != "" {
				r.Host = c.host
			}
			if c.given != "" || c.token == "" {
				r.Header.Set("Authorization", "Bearer "+c.given)
			}
			if c.proxy != "" {
				r.Header.Set("X-Forwarded-For", c.proxy)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Body.String(); w.Code != status || strings.Contains(got, why) != c.want || !strings.HasPrefix(got, "state") {
				t.Errorf("%+v: %d %q", c, w.Code, got)
			}
		}
	}
}
