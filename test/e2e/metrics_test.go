package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMetrics: what tests look up has no label pipeline, wherever it stands among the others.
func TestMetrics(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE a gauge\na{pipeline=\"p\"} 1\nb{pipeline=\"p\",sink=\"s\"} 2\nc{class=\"x\",pipeline=\"p\",sink=\"s\"} 3\nd{le=\"1\",pipeline=\"p\"} 4\n")
	}))
	defer server.Close()
	got, err := Metrics(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"a": 1, `b{sink="s"}`: 2, `c{class="x",sink="s"}`: 3, `d{le="1"}`: 4}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
