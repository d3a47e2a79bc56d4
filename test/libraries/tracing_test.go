package libraries_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailbox/tailbox/test/servers"
)

const tracedConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: shop, tables: [{shape: tailbox}]}
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
`

// A collector is the OTLP receiver of the OpenTelemetry Collector, and what it took.
type collector struct {
	consumertest.TracesSink
	url string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	address := servers.FreeAddr(t)
	c := &collector{url: "http://" + address}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, &c.TracesSink)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = receiver.Shutdown(t.Context()) })
	return c
}

// spans are those of a trace, by their names.
func (c *collector) spans(id trace.TraceID) map[string]ptrace.Span {
	found := map[string]ptrace.Span{}
	for _, all := range c.AllTraces() {
		for _, resource := range all.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					if span.TraceID() == [16]byte(id) {
						found[span.Name()] = span
					}
				}
			}
		}
	}
	return found
}

// TestTrace: an application's span, the delivery, and what the endpoint does with it are one trace at a collector.
func TestTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.url+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	tracer, w3c := provider.Tracer("shop"), propagation.TraceContext{}

	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, span := tracer.Start(w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), "ship the order")
		span.End()
	}))
	t.Cleanup(endpoint.Close)
	p := newProgramWith(t, tracedConfig)
	p.env = append(p.env, "API_URL="+endpoint.URL, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_BSP_SCHEDULE_DELAY=20")
	p.must("init")

	ctx, order := tracer.Start(t.Context(), "place an order")
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	p.inTransaction(func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO outbox (type, message_group, payload, headers) VALUES ('order.placed', 'order:1', '{}', $1)", map[string]string(carrier))
		return err
	})
	order.End()
	relaying, stop := context.WithCancel(t.Context())
	relay := p.relay(relaying)
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = relay.Wait() }() // it was told to stop
	id := order.SpanContext().TraceID()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); len(c.spans(id)) < 3; {
		select {
		case <-deadline:
			t.Fatalf("spans of the trace: %v", c.spans(id))
		case <-tick.C:
		}
	}
	spans := c.spans(id)
	placed, shipped := spans["place an order"], spans["ship the order"]
	delete(spans, "place an order")
	delete(spans, "ship the order")
	for name, span := range spans {
		if span.ParentSpanID() != placed.SpanID() || span.StartTimestamp() < placed.StartTimestamp() || span.EndTimestamp() < shipped.StartTimestamp() {
			t.Errorf("the delivery %s: parent %s, from %v to %v", name, span.ParentSpanID(), span.StartTimestamp(), span.EndTimestamp())
		}
		if outcome, _ := span.Attributes().Get("tailbox.outcome"); outcome.Str() != "delivered" {
			t.Errorf("the delivery's attributes: %v", span.Attributes().AsRaw())
		}
	}
	if shipped.ParentSpanID() != placed.SpanID() {
		t.Errorf("the endpoint's span is below %s, want the application's, %s", shipped.ParentSpanID(), placed.SpanID())
	}
}
