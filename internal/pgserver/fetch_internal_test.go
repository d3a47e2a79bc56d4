package pgserver

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestFetchFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"nothing listens": {nil, "connection refused"},
		"not found":       {http.NotFound, "there is none for this kind of machine"},
		"wrong sum":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, "compare checksum"},
		"another sum": {func(w http.ResponseWriter, r *http.Request) { // of the archive that it gives
			text := "y"
			if strings.HasSuffix(r.URL.Path, ".sha256") {
				text = "a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa"
			}
			_, _ = w.Write([]byte(text))
		}, "compare checksum"},
		"no archive": {func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("x")) }, "not a valid zip file"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			if c.answer == nil {
				server.Close()
			}
			defer server.Close()
			t.Setenv("TAILBOX_MAVEN_URL", server.URL)
			dir := t.TempDir()
			want := sums()["linux-amd64"]
			if name == "no archive" {
				want = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of x
			}
			err := fetchSum(t.Context(), dir, want, func(string) {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left in the cache: %v, %v", left, err)
			}
		})
	}
}

// The library keeps its default in a field of its own: an update that renames it must not go unnoticed.
func TestRepository(t *testing.T) {
	t.Setenv("TAILBOX_MAVEN_URL", "")
	got, err := repository()
	if err != nil || !strings.HasPrefix(got, "https://") || strings.HasSuffix(got, "/") {
		t.Errorf("got %q, %v", got, err)
	}
	t.Setenv("TAILBOX_MAVEN_URL", "http://mirror.example/maven/")
	if got, err := repository(); err != nil || got != "http://mirror.example/maven" {
		t.Errorf("with a mirror: got %q, %v", got, err)
	}
}
