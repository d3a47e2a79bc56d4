package trace_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	span "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tailbox/tailbox/internal/trace"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
)

// A receiver is a collector that notes what it takes.
type receiver struct {
	t testing.TB
	*httptest.Server
	// answer, if not nil, answers the n-th request, from 1, and reports whether it did.
	answer func(n int, w http.ResponseWriter) bool

	mu       sync.Mutex
	requests []*collector.ExportTraceServiceRequest
	headers  []http.Header
	paths    []string
}

func newReceiver(t testing.TB, answer func(int, http.ResponseWriter) bool) *receiver {
	r := &receiver{t: t, answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(req.Body); err != nil {
			r.t.Error(err)
			return
		}
	}
	data, err := io.ReadAll(body)
	var q collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(data, &q)); err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.headers, r.paths = append(r.requests, &q), append(r.headers, req.Header), append(r.paths, req.URL.Path)
	if r.answer != nil {
		r.answer(len(r.requests), w)
	}
}

// spans are those of all requests.
func (r *receiver) spans() (all []*span.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.requests {
		for _, s := range q.GetResourceSpans() {
			for _, scope := range s.GetScopeSpans() {
				all = append(all, scope.GetSpans()...)
			}
		}
	}
	return all
}

// A count says what became of spans.
type count struct {
	mu sync.Mutex
	n  map[string]int
	// changed gets a value for each change.
	changed chan struct{}
}

func newCount() *count { return &count{n: map[string]int{}, changed: make(chan struct{}, 1000)} }

func (c *count) add(result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[result] += n
	c.changed <- struct{}{}
}

func (c *count) is(t testing.TB, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.n); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// A rig is a tracer with the environment of a test.
type rig struct {
	*trace.Tracer
	*count
	log strings.Builder
}

func newRig(t testing.TB, env map[string]string) *rig {
	t.Helper()
	r := &rig{count: newCount()}
	s, err := trace.Read(environment(env), "1.2.3")
	if err != nil || s == nil {
		t.Fatalf("settings: %v, %v", s, err)
	}
	r.Tracer = trace.New(s, trace.Config{Pipeline: "shop", Version: "1.2.3", Count: r.add, Logger: slog.New(slog.NewTextHandler(&r.log, nil))},
		map[string]trace.Sink{"bus": {Kind: "kafka"}, "api": {Kind: "http", Address: "api.example", Port: 443}})
	return r
}

// flush sends what waits, as at the end of a relay.
func (r *rig) flush() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Run(ctx)
}

func environment(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

const (
	traceText  = "0af7651916cd43dd8448eb211c80319c"
	parentText = "b7ad6b7169203331"
	context00  = "00-" + traceText + "-" + parentText + "-01"
)

func headers(pairs ...string) (hs []outbox.Header) {
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, outbox.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func noon() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

func delivery(hs ...string) *sink.Delivery {
	return &sink.Delivery{Topic: "orders", Value: []byte("secret payload"), Attempt: 2, Message: &outbox.Message{ID: "m1", Type: "OrderPlaced", Group: "order:1", Table: "public.outbox",
		Headers: headers(hs...), Payload: []byte("secret payload"), CommitTime: noon().Add(-time.Second), Position: outbox.Position{Log: 1, Commit: 2, N: 3}}}
}

func answers(name string, ds ...*sink.Delivery) relay.Answers {
	return relay.Answers{Sink: name, Deliveries: ds, Started: noon(), Took: 250 * time.Millisecond}
}

// attributes are those of a span, as texts.
func attributes(list []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			all[a.GetKey()] = v.DoubleValue
		}
	}
	return all
}

// TestSpan: the official types read what a span holds, and nothing else is in it.
func TestSpan(t *testing.T) {
	t.Parallel()
	c := newReceiver(t, nil)
	r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/base", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%2Cb, x=1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=prod,service.name=ignored", "OTEL_SERVICE_NAME": "relay"})
	good, bad, skipped := delivery("TraceParent", context00, "tracestate", "a=b", "cookie", "secret cookie"), delivery(), delivery()
	a := answers("api", good, bad, skipped)
	a.Errs = []error{nil, sink.Permanent(errors.New("secret answer")), sink.ErrNotAttempted}
	a.Dead = []*sink.Delivery{bad}
	r.Answered(a)
	r.flush()
	r.is(t, map[string]int{"sent": 2})
	if len(c.requests) != 1 || c.paths[0] != "/base/v1/traces" || c.headers[0].Get("Api-Key") != "a,b" || c.headers[0].Get("X") != "1" ||
		c.headers[0].Get("Content-Type") != "application/x-protobuf" {
		t.Fatalf("requests: %v %v", c.paths, c.headers)
	}
	if text := c.requests[0].String(); strings.Contains(text, "secret") {
		t.Errorf("a secret: %s", text)
	}
	rs := c.requests[0].GetResourceSpans()[0]
	if diff := cmp.Diff(map[string]any{"service.name": "relay", "service.version": "1.2.3", "deployment.environment": "prod"}, attributes(rs.GetResource().GetAttributes())); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	if scope := rs.GetScopeSpans()[0].GetScope(); scope.GetName() != "github.com/tailbox/tailbox" || scope.GetVersion() != "1.2.3" {
		t.Errorf("scope: %v", scope)
	}
	spans := c.spans()
	want := map[string]any{"messaging.system": "http", "messaging.operation.type": "send", "messaging.operation.name": "send", "messaging.destination.name": "orders",
		"messaging.message.id": "m1", "messaging.message.body.size": int64(14), "server.address": "api.example", "server.port": int64(443), "tailbox.pipeline": "shop", "tailbox.sink": "api",
		"tailbox.outcome": "delivered", "tailbox.attempt": int64(2), "tailbox.call.deliveries": int64(3), "tailbox.type": "OrderPlaced", "tailbox.group": "order:1",
		"tailbox.position": "00000001-0000000000000002-00000003", "tailbox.committed_at": "2026-11-25T11:59:59Z", "tailbox.end_to_end_seconds": 1.25}
	if diff := cmp.Diff(want, attributes(spans[0].GetAttributes())); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	want["tailbox.outcome"], want["error.type"] = "dead", "permanent"
	if diff := cmp.Diff(want, attributes(spans[1].GetAttributes())); diff != "" {
		t.Errorf("attributes of a dead letter (-want +got):\n%s", diff)
	}
	s := spans[0]
	if hex.EncodeToString(s.GetTraceId()) != traceText || hex.EncodeToString(s.GetParentSpanId()) != parentText || s.GetTraceState() != "a=b" || len(s.GetSpanId()) != 8 ||
		s.GetName() != "send orders" || s.GetKind() != span.Span_SPAN_KIND_PRODUCER || s.GetStartTimeUnixNano() != uint64(noon().UnixNano()) ||
		s.GetEndTimeUnixNano() != uint64(noon().Add(250*time.Millisecond).UnixNano()) || s.GetStatus() != nil || s.GetFlags() != 0x301 {
		t.Errorf("a child: %v", s)
	}
	s = spans[1]
	if len(s.GetTraceId()) != 16 || s.GetParentSpanId() != nil || s.GetStatus().GetCode() != span.Status_STATUS_CODE_ERROR || s.GetStatus().GetMessage() != "" || s.GetFlags() != 0x101 {
		t.Errorf("a root: %v", s)
	}
}

// TestRoots: attempts of a message at all sinks have one trace if the application has none, other messages have others.
func TestRoots(t *testing.T) {
	t.Parallel()
	c := newReceiver(t, nil)
	r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	other := delivery()
	other.Message.ID = "m2"
	r.Answered(answers("api", delivery(), other))
	r.Answered(answers("bus", delivery()))
	r.flush()
	s := c.spans()
	if len(s) != 3 || string(s[0].GetTraceId()) != string(s[2].GetTraceId()) || string(s[0].GetTraceId()) == string(s[1].GetTraceId()) || string(s[0].GetSpanId()) == string(s[2].GetSpanId()) {
		t.Errorf("spans: %v", s)
	}
}

// TestParents reads contexts as W3C says. Those of the router come first.
func TestParents(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		context00: true, strings.Replace(context00, "00", "cc", 1) + "-more": true, strings.Replace(context00, "00", "cc", 1): true,
		context00 + "-more": false, strings.Replace(context00, "00", "ff", 1): false, strings.ToUpper(context00): false, context00[:54]: false, "": false,
		"00-" + strings.Repeat("0", 32) + "-" + parentText + "-01": false, "00-" + traceText + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + traceText + "_" + parentText + "-01": false, strings.Replace(context00, "00", "cc", 1) + "more": false,
	} {
		c := newReceiver(t, nil)
		r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
		routed := delivery("traceparent", "00-00000000000000000000000000000001-0000000000000001-01")
		if text != "" {
			routed.Headers = headers("traceparent", text)
		}
		r.Answered(answers("api", delivery("traceparent", text), routed))
		r.flush()
		s := c.spans()
		if got := hex.EncodeToString(s[0].GetParentSpanId()) == parentText; got != valid {
			t.Errorf("%q: got %v", text, s[0])
		}
		if got := hex.EncodeToString(s[1].GetParentSpanId()) == parentText; got != valid {
			t.Errorf("routed %q: got %v", text, s[1])
		}
	}
}

func TestSamplers(t *testing.T) {
	t.Parallel()
	sampled, unsampled := context00, context00[:54]+"0"
	for _, test := range []struct {
		sampler, arg            string
		root, sampled, declined int // spans of 1000 messages each
	}{
		{"", "", 1000, 1000, 0},
		{"parentbased_always_on", "", 1000, 1000, 0},
		{"parentbased_always_off", "", 0, 1000, 0},
		{"always_on", "", 1000, 1000, 1000},
		{"always_off", "", 0, 0, 0},
		{"traceidratio", "1", 1000, 1000, 1000},
		{"traceidratio", "0", 0, 0, 0},
		{"traceidratio", "", 1000, 1000, 1000},
		{"traceidratio", "0.1", 100, 1000, 1000},
		{"parentbased_traceidratio", "0.1", 100, 1000, 0},
	} {
		c := newReceiver(t, nil)
		r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.arg,
			"OTEL_BSP_MAX_QUEUE_SIZE": "5000"})
		// An ID with a low lower half, which a ratio of 0.1 takes.
		low := func(text string) string { return strings.Replace(text, "8448eb211c80319c", "0448eb211c80319c", 1) }
		for i := range 1000 {
			root := delivery()
			root.Message.Position.Commit = uint64(i)
			r.Answered(answers("api", root, delivery("traceparent", low(sampled)), delivery("traceparent", low(unsampled))))
		}
		r.flush()
		want, got := test.root+test.sampled+test.declined, len(c.spans())
		if spread := got - want; spread < -40 || spread > 40 || test.arg != "0.1" && spread != 0 {
			t.Errorf("%s %s: %d spans, want %d", test.sampler, test.arg, got, want)
		}
	}
}

// TestQueue: what does not fit is dropped and counted, and costs no memory.
func TestQueue(t *testing.T) {
	c := newReceiver(t, nil)
	r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"})
	for range 3 {
		r.Answered(answers("api", delivery(), delivery(), delivery(), delivery()))
	}
	r.is(t, map[string]int{"dropped": 2})
	a := answers("api", delivery())
	if n := testing.AllocsPerRun(100, func() { r.Answered(a) }); n != 0 {
		t.Errorf("%v allocations for a span that is dropped", n)
	}
	r.flush()
	if n := len(c.requests); n != 3 || len(c.spans()) != 10 {
		t.Errorf("%d requests with %d spans", n, len(c.spans()))
	}
}

// TestSampledOut: what is not sampled costs no memory.
func TestSampledOut(t *testing.T) {
	r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "parentbased_always_off"})
	a := answers("api", delivery("traceparent", context00[:54]+"0"), delivery())
	if n := testing.AllocsPerRun(100, func() { r.Answered(a) }); n != 0 {
		t.Errorf("%v allocations for spans that are not made", n)
	}
}

// TestAnswers: what the collector says decides what becomes of a batch.
func TestAnswers(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) func(int, http.ResponseWriter) bool {
		return func(n int, w http.ResponseWriter) bool {
			if n > 1 {
				return false
			}
			if header != nil {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
			return true
		}
	}
	partial := func(_ int, w http.ResponseWriter) bool {
		data, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "secret"}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
		return true
	}
	for name, test := range map[string]struct {
		answer   func(int, http.ResponseWriter) bool
		requests int
		want     map[string]int
	}{
		"taken":             {nil, 1, map[string]int{"sent": 2}},
		"partly":            {partial, 1, map[string]int{"sent": 1, "refused": 1}},
		"400":               {status(400), 1, map[string]int{"refused": 2}},
		"401":               {status(401), 1, map[string]int{"refused": 2}},
		"500":               {status(500), 1, map[string]int{"refused": 2}},
		"moved":             {status(307, "Location", "/elsewhere"), 1, map[string]int{"refused": 2}},
		"503":               {status(503), 2, map[string]int{"sent": 2}},
		"429":               {status(429, "Retry-After", "1"), 2, map[string]int{"sent": 2}},
		"502":               {status(502), 2, map[string]int{"sent": 2}},
		"504":               {status(504), 2, map[string]int{"sent": 2}},
		"wait for too long": {status(503, "Retry-After", "3600"), 1, map[string]int{"dropped": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newReceiver(t, test.answer)
			r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret"})
			r.Answered(answers("api", delivery(), delivery()))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); r.Run(ctx) }()
			for range test.want {
				<-r.changed
			}
			cancel()
			<-ended
			r.is(t, test.want)
			if len(c.requests) != test.requests {
				t.Errorf("%d requests, want %d", len(c.requests), test.requests)
			}
			if logged := r.log.String(); strings.Contains(logged, "secret") || strings.Contains(logged, "deliveries go on without") != (name != "taken") ||
				strings.Contains(logged, "takes spans again") != (test.requests == 2) {
				t.Errorf("log: %s", logged)
			}
		})
	}
}

// TestStop: a batch whose collector hangs is sent again at the end, and what is not taken then is counted as dropped.
func TestStop(t *testing.T) {
	t.Parallel()
	asked, free := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		asked <- struct{}{}
		select {
		case <-req.Context().Done():
		case <-free:
		}
	}))
	defer server.Close()
	for name, end := range map[string]bool{"answers at last": true, "hangs": false} {
		r := newRig(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_BSP_SCHEDULE_DELAY": "10"})
		r.Answered(answers("api", delivery(), delivery()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		<-asked
		cancel()
		<-asked // again
		want := map[string]int{"dropped": 2}
		if end {
			free <- struct{}{}
			want = map[string]int{"sent": 2}
		}
		<-ended
		t.Log(name)
		r.is(t, want)
	}
}
