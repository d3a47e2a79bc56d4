package http_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// endpoint is an HTTP server that can be stopped, started on the same address, and held up.
type endpoint struct {
	address string
	handler nethttp.Handler
	mu      sync.Mutex
	server  *nethttp.Server
	hold    chan struct{}
}

func newEndpoint(t testing.TB, handler nethttp.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{address: servers.FreeAddr(t), handler: handler}
	e.start(t)
	t.Cleanup(func() { e.stop(t) })
	return e
}

func (e *endpoint) url() string { return "http://" + e.address + "/hook" }

func (e *endpoint) start(t testing.TB) {
	l, err := servers.ListenAgain(e.address)
	if err != nil {
		t.Error(err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.address = l.Addr().String()
	e.server = &nethttp.Server{Handler: e, ErrorLog: log.New(io.Discard, "", 0)}
	go e.server.Serve(l) //nolint:errcheck // It ends with the server.
}

func (e *endpoint) stop(t testing.TB) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.server.Close(); err != nil {
		t.Error(err)
	}
}

func (e *endpoint) hang(testing.TB) (resume func()) {
	hold := make(chan struct{})
	e.mu.Lock()
	e.hold = hold
	e.mu.Unlock()
	return func() {
		e.mu.Lock()
		e.hold = nil
		e.mu.Unlock()
		close(hold)
	}
}

func (e *endpoint) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold != nil {
		<-hold
	}
	e.handler.ServeHTTP(w, r)
}

// inbox remembers what came, in order.
type inbox struct {
	format http.Format
	mu     sync.Mutex
	got    []sinktest.Arrival
}

func (i *inbox) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The connection broke: that is no arrival.
	}
	as, err := parse(i.format, r.Header, body)
	if err != nil {
		nethttp.Error(w, err.Error(), nethttp.StatusBadRequest)
		return
	}
	i.mu.Lock()
	i.got = append(i.got, as...)
	i.mu.Unlock()
	results := make([]map[string]string, len(as))
	for n, a := range as {
		results[n] = map[string]string{"id": a.ID, "status": "delivered"}
	}
	json.NewEncoder(w).Encode(map[string]any{"results": results}) //nolint:errcheck // The client sees it.
}

func (i *inbox) arrived(testing.TB) []sinktest.Arrival {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.got)
}

func parse(format http.Format, h nethttp.Header, body []byte) ([]sinktest.Arrival, error) {
	switch format {
	case http.Single:
		a := sinktest.Arrival{ID: unescape(h.Get("id")), Value: body}
		for name, values := range h {
			for _, v := range values {
				if strings.HasPrefix(name, "Tailbox-") || name == "Id" {
					v = unescape(v)
				}
				a.Headers = append(a.Headers, outbox.Header{Name: strings.ToLower(name), Value: []byte(v)})
			}
		}
		a.Headers = slices.DeleteFunc(a.Headers, func(h outbox.Header) bool { return ofRequest(h.Name) })
		sortHeaders(a.Headers)
		return []sinktest.Arrival{a}, nil
	case http.Array:
		var values []json.RawMessage
		if err := json.Unmarshal(body, &values); err != nil {
			return nil, err
		}
		var as []sinktest.Arrival
		for i, id := range strings.Split(h.Get("Tailbox-Ids"), ",") {
			as = append(as, sinktest.Arrival{ID: unescape(id), Value: decode(values[i])})
		}
		return as, nil
	}
	var events []event
	var err error
	if format == http.CloudEvents {
		events = make([]event, 1)
		err = json.Unmarshal(body, &events[0])
	} else {
		err = json.Unmarshal(body, &events)
	}
	if err != nil {
		return nil, err
	}
	as := make([]sinktest.Arrival, len(events))
	for i, e := range events {
		as[i] = sinktest.Arrival{ID: e.ID, Value: e.Base64}
		if len(e.Data) > 0 {
			as[i].Value = decode(e.Data)
		}
	}
	return as, nil
}

type event struct {
	ID     string          `json:"id"`
	Data   json.RawMessage `json:"data"`
	Base64 []byte          `json:"data_base64"`
}

// decode reads back what sink.AppendValue wrote.
func decode(raw json.RawMessage) []byte {
	var text string
	var binary struct {
		Base64 *string `json:"base64"`
	}
	switch {
	case string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		return []byte(text)
	case json.Unmarshal(raw, &binary) == nil && binary.Base64 != nil:
		b, _ := base64.StdEncoding.DecodeString(*binary.Base64)
		return b
	}
	return raw
}

func unescape(s string) string {
	u, err := url.PathUnescape(s)
	if err != nil {
		return err.Error()
	}
	return u
}

func ofRequest(name string) bool {
	return slices.Contains([]string{"accept-encoding", "content-length", "content-type", "user-agent", "idempotency-key"}, name)
}

func sortHeaders(hs []outbox.Header) {
	slices.SortStableFunc(hs, func(a, b outbox.Header) int { return cmp.Compare(a.Name, b.Name) })
}

func newSink(t testing.TB, cfg http.Config) *http.Sink {
	t.Helper()
	s, err := http.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		format  http.Format
		results bool
	}{
		{name: "array", format: http.Array},
		{name: "array with results", format: http.Array, results: true},
		{name: "single", format: http.Single},
		{name: "cloudevents", format: http.CloudEvents},
		{name: "cloudevents-batch", format: http.CloudEventsBatch},
		{name: "cloudevents-batch with results", format: http.CloudEventsBatch, results: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, sinktest.Harness{
				New: func(t *testing.T) sinktest.Place {
					i := &inbox{format: test.format}
					e := newEndpoint(t, i.ServeHTTP)
					return sinktest.Place{
						Sink:  newSink(t, http.Config{URL: e.url(), Format: test.format, Results: test.results}),
						Topic: "orders", Arrived: i.arrived, Stop: e.stop, Start: e.start, Hang: e.hang,
					}
				},
				Want: func(d *sink.Delivery, a sinktest.Arrival) sinktest.Arrival {
					a.Key = nil
					if test.format != http.Single {
						a.Headers = nil
						return a
					}
					if a.Value == nil {
						a.Value = []byte{}
					}
					for i := range a.Headers {
						a.Headers[i].Name = strings.ToLower(a.Headers[i].Name)
					}
					sortHeaders(a.Headers)
					return a
				},
			})
		})
	}
}
