package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/internal/trace"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/test/servers"
)

const tracedConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s, tables: [{name: outbox, shape: tailbox}]}
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
retry: {schedule: [50ms]}
admin: {listen: "127.0.0.1:${PORT}"}
`

// A traceCollector takes spans over OTLP/HTTP.
type traceCollector struct {
	t testing.TB
	*httptest.Server
	mu    sync.Mutex
	taken []*span.Span
}

func newTraceCollector(t testing.TB) *traceCollector {
	c := &traceCollector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *traceCollector) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var q collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(body, &q)); err != nil || req.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: %v", req.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range q.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			c.taken = append(c.taken, s.GetSpans()...)
		}
	}
}

// of returns the spans of a message, oldest first.
func (c *traceCollector) of(id string) (spans []*span.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.taken {
		if attributeOf(s, "messaging.message.id") == id {
			spans = append(spans, s)
		}
	}
	return spans
}

func attributeOf(s *span.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return strconv.FormatInt(a.GetValue().GetIntValue(), 10)
		}
	}
	return ""
}

// newTracedRig is a rig whose relay traces to an endpoint.
func newTracedRig(t testing.TB, endpoint string) (*rig, *endpointWithHeaders) {
	t.Helper()
	e := &endpointWithHeaders{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r := newRig(t, tracedConfig)
	_, r.env["PORT"], _ = net.SplitHostPort(servers.FreeAddr(t))
	r.env["API_URL"], r.env["OTEL_EXPORTER_OTLP_ENDPOINT"], r.env["OTEL_BSP_SCHEDULE_DELAY"] = server.URL, endpoint, "20"
	r.must("init")
	return r, e
}

// An endpointWithHeaders also notes the trace contexts that it gets.
type endpointWithHeaders struct {
	endpoint
	contexts sync.Map // of texts
}

func (e *endpointWithHeaders) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.contexts.Store(req.Header.Get("traceparent"), true)
	e.endpoint.ServeHTTP(w, req)
}

func (r *rig) spansCounted() map[string]int {
	counts := map[string]int{}
	resp, err := http.Get("http://127.0.0.1:" + r.env["PORT"] + "/metrics")
	if err != nil {
		return counts // it does not listen yet
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^tailbox_trace_spans_total\{pipeline="shop",result="(\w+)"\} (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			r.t.Fatal(err)
		}
		counts[m[1]] = n
	}
	return counts
}

// TestTracing: each attempt is a span below the application's, in its trace, from the call of the sink to its answer; also after a reload. The sink gets the
// application's own context.
func TestTracing(t *testing.T) {
	t.Parallel()
	c := newTraceCollector(t)
	r, e := newTracedRig(t, c.URL)
	hangups := make(chan struct{})
	r.hangups = func() <-chan struct{} { return hangups }
	stop := r.relay()
	const traceText, parentText = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const application = "00-" + traceText + "-" + parentText + "-01"
	good := r.traced("a1", "a:1", `{"secret": 1}`, application)
	plain := r.traced("b1", "b:1", `{}`, "")
	declined := r.traced("c1", "c:1", `{}`, application[:54]+"0")
	bad := r.traced("d1", "d:1", `"bad"`, application)
	until(t, "the spans", func() bool { return len(c.of(good)) == 1 && len(c.of(plain)) == 1 && len(c.of(bad)) == 1 })
	s := c.of(good)[0]
	api, err := url.Parse(r.env["API_URL"])
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(s.GetTraceId()) != traceText || hex.EncodeToString(s.GetParentSpanId()) != parentText || s.GetStartTimeUnixNano() >= s.GetEndTimeUnixNano() ||
		attributeOf(s, "messaging.system") != "http" || attributeOf(s, "tailbox.outcome") != "delivered" || attributeOf(s, "tailbox.attempt") != "1" ||
		attributeOf(s, "server.port") != api.Port() {
		t.Errorf("a delivery: %v", s)
	}
	if s := c.of(plain)[0]; s.GetParentSpanId() != nil || len(s.GetTraceId()) != 16 {
		t.Errorf("a delivery without a context: %v", s)
	}
	if s := c.of(bad)[0]; attributeOf(s, "tailbox.outcome") != "dead" || attributeOf(s, "error.type") != "permanent" || s.GetStatus().GetCode() != span.Status_STATUS_CODE_ERROR {
		t.Errorf("a dead letter: %v", s)
	}
	if _, ok := e.contexts.Load(application); !ok {
		t.Error("the sink did not get the application's context")
	}
	writeFile(t, r.file, strings.Replace(tracedConfig, "sinks: {", `sinks: {web: {kind: http, url: "${API_URL}", format: single}, `, 1)+"routes: [{to: [web, api]}]\n")
	hangups <- struct{}{}
	until(t, "a span of the sink of another configuration", func() bool {
		after := r.traced("e1", "e:1", `{}`, application)
		until(t, "a span", func() bool { return len(c.of(after)) > 0 })
		for _, s := range c.of(after) {
			if attributeOf(s, "tailbox.sink") != "web" {
				continue
			}
			if attributeOf(s, "messaging.system") != "http" || attributeOf(s, "server.port") != api.Port() || hex.EncodeToString(s.GetParentSpanId()) != parentText {
				t.Errorf("after a reload: %v", s)
			}
			return true
		}
		return false
	})
	e.set(true)
	late := r.traced("f1", "f:1", `{}`, application)
	until(t, "a retry", func() bool { return len(c.of(late)) >= 1 })
	e.set(false)
	until(t, "the end of a retry", func() bool {
		spans := c.of(late)
		return attributeOf(spans[len(spans)-1], "tailbox.outcome") == "delivered"
	})
	if s := c.of(late)[0]; attributeOf(s, "tailbox.outcome") != "retry" || attributeOf(s, "error.type") != "unavailable" || hex.EncodeToString(s.GetTraceId()) != traceText {
		t.Errorf("a failed attempt: %v", s)
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	if len(c.of(declined)) != 0 {
		t.Errorf("the application does not sample, and tailbox does: %v", c.of(declined))
	}
	for _, s := range c.taken {
		if text := s.String(); strings.Contains(text, "secret") {
			t.Errorf("a span holds the payload: %s", text)
		}
	}
}

func (e *endpoint) set(down bool) { e.mu.Lock(); defer e.mu.Unlock(); e.down = down }

// traced sends a message with a trace context.
func (r *rig) traced(typ, group, payload, parent string) string {
	r.t.Helper()
	args := []string{"send", "--type", typ, "--group", group}
	if parent != "" {
		args = append(args, "--header", "traceparent="+parent)
	}
	return strings.TrimSpace(r.must(append(args, payload)...))
}

// TestTracingWithoutCollector: if the collector refuses, hangs or is away, deliveries go on, and spans beyond the queue are dropped and counted.
func TestTracingWithoutCollector(t *testing.T) {
	t.Parallel()
	const messages, queue = 500, 50
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	for name, serve := range map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"hangs":   func(http.ResponseWriter, *http.Request) { <-free },
		"is away": nil,
	} {
		t.Run(name, func(t *testing.T) {
			address := "http://" + servers.FreeAddr(t)
			if serve != nil {
				c := httptest.NewServer(serve)
				t.Cleanup(c.CloseClientConnections)
				address = c.URL
			}
			r, e := newTracedRig(t, address)
			r.env["OTEL_BSP_MAX_QUEUE_SIZE"], r.env["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"] = strconv.Itoa(queue), "10"
			stop := r.relay()
			r.sql("INSERT INTO outbox (id, topic, type, payload) SELECT gen_random_uuid(), 'order', 'a', '{}' FROM generate_series(1, $1)", messages)
			until(t, "all messages", func() bool { return len(strings.Fields(e.got())) == messages })
			until(t, "dropped spans", func() bool { return r.spansCounted()["dropped"] > 0 })
			if n := r.spansCounted(); n["sent"] != 0 || n["refused"] != 0 {
				t.Errorf("spans: %v", n)
			}
			got := stop()
			if got.code != exitDone || strings.Count(got.err, "deliveries go on without") != 1 {
				t.Errorf("run: %+v", got)
			}
		})
	}
}

// TestTracingSettings: run and check refuse wrong settings before they do anything, and name variable and fix.
func TestTracingSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig)
	r.env["OTEL_EXPORTER_OTLP_ENDPOINT"], r.env["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http://127.0.0.1:4317", "grpc"
	for _, command := range [][]string{{"run"}, {"check"}, {"check", "--offline"}} {
		if got := r.command(command...); got.code != exitUsage || !strings.Contains(got.err, `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": tailbox speaks only http/protobuf`) {
			t.Errorf("%v: %+v", command, got)
		}
	}
}

// TestTracingOff: without an endpoint, nothing is attached that could cost anything.
func TestTracingOff(t *testing.T) {
	d := &sink.Delivery{Topic: "order", Message: &outbox.Message{ID: "1", Headers: []outbox.Header{{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}}}
	a := relay.Answers{Sink: "api", Deliveries: []*sink.Delivery{d, d, d}}
	f := onAnswers(&tail.Hub{}, nil)
	if n := testing.AllocsPerRun(1000, func() { f(a) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// BenchmarkTracing is what the relay pays for a delivery, in calls of 100: without tracing, if each gets a span, if none is sampled, and if the queue is full.
func BenchmarkTracing(b *testing.B) {
	const queue = 20_000
	ds := make([]*sink.Delivery, 100)
	for i := range ds {
		ds[i] = &sink.Delivery{Topic: "order", Message: &outbox.Message{ID: fmt.Sprint(i), Type: "OrderPlaced", Headers: []outbox.Header{{Name: "traceparent",
			Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}}}
	}
	for name, env := range map[string]map[string]string{
		"off":     nil,
		"traced":  {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": strconv.Itoa(queue)},
		"sampled": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "always_off"},
		"full":    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": "1"},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := trace.Read(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, "1")
			if err != nil {
				b.Fatal(err)
			}
			hook := func() func(relay.Answers) {
				if s == nil {
					return onAnswers(&tail.Hub{}, nil)
				}
				return onAnswers(&tail.Hub{}, trace.New(s, trace.Config{Pipeline: "shop", Count: func(string, int) {}, Logger: slog.New(slog.DiscardHandler)}, nil))
			}
			f := hook()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if name == "traced" && i%(queue/len(ds)) == 0 {
					f = hook() // with an empty queue
				}
				f(relay.Answers{Sink: "api", Deliveries: ds})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ds)), "ns/delivery")
		})
	}
}
