package http

import (
	"context"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// A small message goes out in one write: each further one costs a system call here, and one at the endpoint.
func TestOneWrite(t *testing.T) {
	t.Parallel()
	var got int
	server := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) { got = int(r.ContentLength) }))
	t.Cleanup(server.Close)
	for size, want := range map[int]int64{0: 1, 1: 1, 2000: 1, 100_000: 2} {
		s, err := New(Config{URL: server.URL, Format: Single})
		if err != nil {
			t.Fatal(err)
		}
		var used *conn
		dial := s.transport.DialContext
		s.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err == nil {
				used = c.(*conn)
			}
			return c, err
		}
		d := &sink.Delivery{Message: &outbox.Message{ID: "1"}, Value: []byte(strings.Repeat("x", size))}
		if errs := s.Deliver(t.Context(), []*sink.Delivery{d}); errs != nil {
			t.Fatalf("%d bytes: %v", size, errs)
		}
		if n := used.writes.Load(); got != size || n < want || want == 1 && n > 1 {
			t.Errorf("%d of %d bytes came in %d writes, want %d", got, size, n, want)
		}
		_ = s.Close(t.Context())
	}
}
