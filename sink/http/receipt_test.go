package http_test

import (
	"fmt"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
)

// What an endpoint answers to messages that it takes is kept where that is wanted: its status and body, or what it says of each.
func TestReceipts(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/hook") {
		case "/results":
			fmt.Fprint(w, `{"results":[{"status":"delivered","receipt":"no 7"},{"status":"retry"},{"status":"delivered"}]}`)
		case "/no":
			w.WriteHeader(500)
			fmt.Fprint(w, "no")
		case "/bare":
			w.WriteHeader(204)
		default:
			w.WriteHeader(202)
			fmt.Fprint(w, "{\n \"sent\": true }"+strings.Repeat(" x", 2000))
		}
	})
	for path, want := range map[string][3]string{
		"/results": {"delivered no 7", "", "delivered"},
		"/no":      {},
		"/bare":    {"204", "204", "204"},
		"/":        {`202 { "sent": true } x x`, "", `202 { "sent": true } x x`},
	} {
		s := newSink(t, http.Config{URL: e.url() + path, Results: path == "/results"})
		ds := deliveries(3)
		for i := range ds {
			if i != 1 || path != "/" {
				ds[i].Receipt = &sink.Receipt{}
			}
		}
		s.Deliver(t.Context(), ds)
		for i, d := range ds {
			if got := d.Receipt.Text(); !strings.HasPrefix(got, want[i]) || len(got) > sink.MaxReceipt || want[i] == "" && got != "" {
				t.Errorf("%s, message %d: got %q, want %q", path, i, got, want[i])
			}
		}
	}
}
