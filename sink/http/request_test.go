package http_test

import (
	"encoding/json"
	"io"
	nethttp "net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
)

// received is one request as the endpoint saw it.
type received struct {
	header nethttp.Header
	host   string
	body   string
}

// request delivers ds and returns what the endpoint saw.
func request(t *testing.T, cfg http.Config, ds ...*sink.Delivery) (received, []error) {
	t.Helper()
	var got received
	e := newEndpoint(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = received{header: r.Header, host: r.Host, body: string(body)}
	})
	cfg.URL = e.url()
	answers := newSink(t, cfg).Deliver(t.Context(), ds)
	return got, answers
}

func message() *sink.Delivery {
	return &sink.Delivery{
		Message: &outbox.Message{
			ID: "7", Table: "public.outbox", Type: "OrderPlaced", Group: "customer 1", Position: outbox.Position{Log: 1, Commit: 2, N: 3},
			CommitTime: time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC),
			Headers:    []outbox.Header{{Name: "trace-id", Value: []byte("abc")}},
		},
		Topic: "orders", Key: []byte("k"), Value: []byte(`{"a": 1}`), Attempt: 2, Source: "shop",
		Headers: []outbox.Header{{Name: "eventType", Value: []byte("Placed")}},
	}
}

func TestSingle(t *testing.T) {
	t.Parallel()
	got, answers := request(t, http.Config{Format: http.Single, Bearer: "b", Headers: map[string]string{"x-fixed": "1", "host": "h.example"}}, message())
	if answers != nil {
		t.Fatal(answers)
	}
	got.header.Del("Accept-Encoding")
	want := nethttp.Header{
		"Id": {"7"}, "Eventtype": {"Placed"}, "Trace-Id": {"abc"}, "Content-Type": {"application/json"},
		"Tailbox-Type": {"OrderPlaced"}, "Tailbox-Group": {"customer 1"}, "Tailbox-Source": {"shop"}, "Tailbox-Attempt": {"2"},
		"Tailbox-Position": {"00000001-0000000000000002-00000003"}, "Idempotency-Key": {`"shop/public.outbox/7"`},
		"Authorization": {"Bearer b"}, "X-Fixed": {"1"}, "User-Agent": {"tailbox"}, "Content-Length": {"8"},
	}
	if !reflect.DeepEqual(got.header, want) {
		t.Errorf("headers\n got %v\nwant %v", got.header, want)
	}
	if got.body != `{"a": 1}` || got.host != "h.example" {
		t.Errorf("body %q, host %q", got.body, got.host)
	}
}

func TestSingleWithoutMetadata(t *testing.T) {
	t.Parallel()
	got, _ := request(t, http.Config{Format: http.Single, OmitMetadata: true}, message())
	for name := range got.header {
		if strings.HasPrefix(name, "Tailbox") {
			t.Errorf("header %s", name)
		}
	}
	if got.header.Get("id") != "7" {
		t.Errorf("id %q", got.header.Get("id"))
	}
}

func TestContentTypeAndKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*sink.Delivery)
		header string
		want   string
	}{
		{"column", func(d *sink.Delivery) { d.Message.ContentType = "application/avro" }, "Content-Type", "application/avro"},
		{"header", func(d *sink.Delivery) {
			d.Message.Headers = []outbox.Header{{Name: "content-type", Value: []byte("text/csv")}}
		}, "Content-Type", "text/csv"},
		{"bytes", func(d *sink.Delivery) { d.Value = []byte{0xff} }, "Content-Type", "application/octet-stream"},
		{"column", func(d *sink.Delivery) { d.Message.IdempotencyKey = `a"b\c` }, "Idempotency-Key", `"a\"b\\c"`},
		{"id", func(d *sink.Delivery) { d.Message.ID = "é%" }, "Idempotency-Key", `"%C3%A9%25"`},
		{"header", func(d *sink.Delivery) {
			d.Message.Headers = []outbox.Header{{Name: "IDEMPOTENCY-KEY", Value: []byte(`"own"`)}}
		}, "Idempotency-Key", `"own"`},
		{"line break in a group", func(d *sink.Delivery) { d.Message.Group = "a\r\nHost: b" }, "Tailbox-Group", "a%0D%0AHost: b"},
		{"encoding of the payload", func(d *sink.Delivery) {
			d.Message.Headers = []outbox.Header{{Name: "content-encoding", Value: []byte("gzip")}}
		}, "Content-Encoding", "gzip"},
	} {
		t.Run(test.header+" by "+test.name, func(t *testing.T) {
			t.Parallel()
			d := message()
			test.change(d)
			got, answers := request(t, http.Config{Format: http.Single}, d)
			if answers != nil || !reflect.DeepEqual(got.header[test.header], []string{test.want}) {
				t.Errorf("got %q, %v, want %q", got.header[test.header], answers, test.want)
			}
		})
	}
}

// TestHostileHeaders has rows of the outbox that try to change the request itself.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	d := message()
	for _, name := range []string{"Content-Length", "transfer-encoding", "Host", "connection", "Trailer", "Expect", "Upgrade", "te"} {
		d.Message.Headers = append(d.Message.Headers, outbox.Header{Name: name, Value: []byte("evil")})
	}
	d.Message.Headers = append(d.Message.Headers, outbox.Header{Name: "authorization", Value: []byte("evil")})
	got, answers := request(t, http.Config{Format: http.Single, Bearer: "good"}, d)
	if answers != nil || got.host == "evil" || got.body != `{"a": 1}` {
		t.Errorf("answers %v, request %+v", answers, got)
	}
	for name, values := range got.header {
		if strings.Contains(strings.Join(values, ""), "evil") {
			t.Errorf("header %s: %q", name, values)
		}
	}

	for _, h := range []outbox.Header{
		{Name: "", Value: []byte("v")}, {Name: "two words", Value: []byte("v")}, {Name: "é", Value: []byte("v")},
		{Name: "a:b", Value: []byte("v")}, {Name: "x", Value: []byte("a\r\nInjected: 1")}, {Name: "x", Value: []byte{0}},
	} {
		d := message()
		d.Message.Headers = []outbox.Header{h}
		got, answers := request(t, http.Config{Format: http.Single}, d)
		if len(answers) != 1 || got.header != nil {
			t.Errorf("header %q was sent", h.Name)
			continue
		}
		if class, _, _ := sink.Classify(answers[0]); class != sink.ClassPermanent {
			t.Errorf("header %q: %v: %v", h.Name, class, answers[0])
		}
		if _, answers := request(t, http.Config{Format: http.CloudEventsBatch}, d); answers != nil {
			t.Errorf("header %q in a batch of events: %v", h.Name, answers)
		}
	}
}

func TestArray(t *testing.T) {
	t.Parallel()
	ds := []*sink.Delivery{message(), message(), message(), message()}
	ds[1].Value, ds[1].Message.ID = []byte("plain"), "a,b%"
	ds[2].Value = nil
	ds[3].Value = []byte{0xff}
	got, answers := request(t, http.Config{}, ds...)
	if answers != nil {
		t.Fatal(answers)
	}
	if want := `[{"a": 1},"plain",null,{"base64":"/w=="}]`; got.body != want {
		t.Errorf("body %s, want %s", got.body, want)
	}
	if want := "7,a%2Cb%25,7,7"; got.header.Get("tailbox-ids") != want {
		t.Errorf("tailbox-ids: %s, want %s", got.header.Get("tailbox-ids"), want)
	}
	const p = "00000001-0000000000000002-00000003"
	if want := strings.Join([]string{p, p, p, p}, ","); got.header.Get("tailbox-positions") != want {
		t.Errorf("tailbox-positions: %s", got.header.Get("tailbox-positions"))
	}
	if got.header.Get("content-type") != "application/json" || got.header.Get("tailbox-source") != "shop" {
		t.Errorf("headers: %v", got.header)
	}
	got, _ = request(t, http.Config{OmitMetadata: true}, ds...)
	if got.header.Get("tailbox-ids") == "" || got.header.Get("tailbox-positions") != "" {
		t.Errorf("headers without metadata: %v", got.header)
	}
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	common := map[string]any{
		"specversion": "1.0", "id": "7", "source": "tailbox/shop", "type": "OrderPlaced", "time": "2026-01-02T03:04:05.6Z",
		"partitionkey": "k", "sequence": "00000001-0000000000000002-00000003",
		"tailboxposition": "00000001-0000000000000002-00000003", "tailboxgroup": "customer 1", "tailboxtopic": "orders",
		"tailboxattempt": 2.0, "eventtype": "Placed", "traceid": "abc", "tailboxheaders": `{"eventType":"Placed","trace-id":"abc"}`,
		"datacontenttype": "application/json", "data": map[string]any{"a": 1.0},
	}
	for _, test := range []struct {
		name   string
		change func(*sink.Delivery)
		want   map[string]any // beside common; nil = absent
	}{
		{"plain", func(*sink.Delivery) {}, nil},
		{"text", func(d *sink.Delivery) { d.Value = []byte("t") }, map[string]any{"data": "t", "datacontenttype": "text/plain"}},
		{"JSON of another type", func(d *sink.Delivery) { d.Value, d.Message.ContentType = []byte("1"), "text/csv" },
			map[string]any{"data": "1", "datacontenttype": "text/csv"}},
		{"JSON by its type", func(d *sink.Delivery) { d.Message.ContentType = "application/vnd.shop+json; v=1" },
			map[string]any{"datacontenttype": "application/vnd.shop+json; v=1"}},
		{"bytes", func(d *sink.Delivery) { d.Value = []byte{0xff} },
			map[string]any{"data": nil, "data_base64": "/w==", "datacontenttype": "application/octet-stream"}},
		{"tombstone", func(d *sink.Delivery) { d.Value = nil }, map[string]any{"data": nil, "datacontenttype": nil}},
		{"bare", func(d *sink.Delivery) {
			d.Message.Type, d.Message.Group, d.Key, d.Topic, d.Headers, d.Message.Headers = "", "", nil, "", nil, nil
			d.Message.CommitTime = time.Time{}
		}, map[string]any{"type": "tailbox.message", "partitionkey": nil, "tailboxgroup": nil, "tailboxtopic": nil, "eventtype": nil,
			"traceid": nil, "tailboxheaders": nil, "time": nil}},
		{"group as key", func(d *sink.Delivery) { d.Key = []byte{0xff} }, map[string]any{"partitionkey": "customer 1"}},
		{"names that are taken or impossible", func(d *sink.Delivery) {
			d.Headers = nil
			d.Message.Headers = []outbox.Header{{Name: "ID", Value: []byte("x")}, {Name: "a-b", Value: []byte("1")},
				{Name: "ab", Value: []byte("2")}, {Name: "sp ace", Value: []byte("3")}, {Name: "nothing", Value: nil},
				{Name: "d.a.t.a", Value: []byte("4")}, {Name: "longer-than-twenty-letters", Value: []byte("5")}}
		}, map[string]any{"eventtype": nil, "traceid": nil, "ab": "1",
			"tailboxheaders": `{"ID":"x","a-b":"1","ab":"2","sp ace":"3","nothing":null,"d.a.t.a":"4","longer-than-twenty-letters":"5"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := message()
			test.change(d)
			want := make(map[string]any)
			for name, value := range common {
				want[name] = value
			}
			for name, value := range test.want {
				if want[name] = value; value == nil {
					delete(want, name)
				}
			}
			got, answers := request(t, http.Config{Format: http.CloudEventsBatch}, d, d)
			var events []map[string]any
			if err := json.Unmarshal([]byte(got.body), &events); err != nil || answers != nil || len(events) != 2 {
				t.Fatalf("%v, %v: %s", err, answers, got.body)
			}
			if !reflect.DeepEqual(events[0], want) || !reflect.DeepEqual(events[1], want) {
				t.Errorf("got  %v\nwant %v", events[0], want)
			}
			if got := got.header.Get("content-type"); got != "application/cloudevents-batch+json; charset=utf-8" {
				t.Errorf("content type %q", got)
			}
		})
	}
	got, _ := request(t, http.Config{Format: http.CloudEvents}, message())
	if got.header.Get("content-type") != "application/cloudevents+json; charset=utf-8" || got.header.Get("Tailbox-Group") != "customer 1" {
		t.Errorf("headers of one event: %v", got.header)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	bad := http.Config{
		URL: "ftp://secret@x", Format: "xml", Results: true, MaxBatch: -1, MaxBytes: -1, Concurrency: 1e6, Timeout: -1, ConnectTimeout: -1, IdleTimeout: -1,
		Bearer: "secret\n", Headers: map[string]string{"a b": "1", "Content-Length": "1", "x": "\n"}, TLS: &sink.TLS{Cert: "c"},
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"url", "format", "results", "max_batch", "max_bytes", "concurrency", "timeout", "connect_timeout", "idle_timeout",
		"bearer", `headers."a b"`, `headers."Content-Length"`, `headers."x"`, "tls.key"} {
		if !strings.Contains("\n"+err.Error(), "\n"+key+": ") {
			t.Errorf("no problem with %s in\n%v", key, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a secret in\n%v", err)
	}
	if _, err := http.New(http.Config{URL: "http://x", TLS: &sink.TLS{}}); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("tls without https: %v", err)
	}
	if _, err := http.New(http.Config{URL: "https://u:p@x", Bearer: "b"}); err == nil || !strings.Contains(err.Error(), "bearer") {
		t.Errorf("two ways to authenticate: %v", err)
	}
	if _, err := http.New(http.Config{URL: "https://x"}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
