package compressed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/compressed"
	"github.com/tailbox/tailbox/sink/discard"
	"github.com/tailbox/tailbox/sink/http"
)

func delivery(id, value string, headers ...outbox.Header) *sink.Delivery {
	return &sink.Delivery{Message: &outbox.Message{ID: id, Type: "T", Headers: headers}, Value: []byte(value), Attempt: 1}
}

func unpack(t *testing.T, b []byte) string {
	t.Helper()
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := r.DecodeAll(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An endpoint gets large values compressed, with headers that say what they are, and all others as they are.
func TestThroughHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]nethttp.Header{}
	bodies := map[string][]byte{}
	endpoint := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Id")], bodies[r.Header.Get("Id")] = r.Header, body
	}))
	defer endpoint.Close()
	inner, err := http.New(http.Config{URL: endpoint.URL, Format: http.Single})
	if err != nil {
		t.Fatal(err)
	}
	s, err := compressed.New(inner, compressed.Config{MinSize: 100, ContentType: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	json, text := `{"a":"`+strings.Repeat("x", 1000)+`"}`, strings.Repeat("text ", 100)
	random := string(bytes.Map(func(r rune) rune { return r }, []byte("0Kq~")))
	for _, d := range []*sink.Delivery{delivery("json", json), delivery("text", text), delivery("small", random),
		delivery("own", text, outbox.Header{Name: "Content-Encoding", Value: []byte("identity")})} {
		before := *d
		if answers := s.Deliver(t.Context(), []*sink.Delivery{d}); answers != nil {
			t.Fatal(answers)
		}
		if !bytes.Equal(d.Value, before.Value) || len(d.Headers) != 0 {
			t.Errorf("%s: the delivery was changed", d.Message.ID)
		}
	}
	for id, want := range map[string][3]string{"json": {"zstd", "application/json", json}, "text": {"zstd", "application/octet-stream", text},
		"small": {"", "application/octet-stream", random}, "own": {"identity", "application/octet-stream", text}} {
		body := string(bodies[id])
		if want[0] == "zstd" {
			body = unpack(t, bodies[id])
		}
		if h := got[id]; h.Get("Content-Encoding") != want[0] || h.Get("Content-Type") != want[1] || body != want[2] {
			t.Errorf("%s: encoding %q, type %q, %d bytes, want %q, %q", id, h.Get("Content-Encoding"), h.Get("Content-Type"), len(body), want[0], want[1])
		}
	}
}

// plain is a sink that can do nothing but deliver.
type plain struct{ sink.Sink }

type placing struct{ plain }

func (placing) Destination(*sink.Delivery) sink.Destination { return sink.Destination{Name: "here"} }

type checking struct{ plain }

var errCheck = errors.New("checked")

func (checking) Check(context.Context) []error { return []error{errCheck} }

// What the sink can do besides delivering stays.
func TestAbilities(t *testing.T) {
	t.Parallel()
	nothing, err := discard.New(discard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, inner := range map[string]sink.Sink{"plain": plain{nothing}, "placing": placing{plain{nothing}}, "checking": checking{plain{nothing}},
		"both": struct {
			placing
			sink.Checker
		}{placing{plain{nothing}}, checking{}}} {
		s, err := compressed.New(inner, compressed.Config{})
		if err != nil {
			t.Fatal(err)
		}
		to, places := s.(sink.Destinations)
		check, checks := s.(sink.Checker)
		if places != (name == "placing" || name == "both") || checks != (name == "checking" || name == "both") {
			t.Errorf("%s: names destinations: %v, checks: %v", name, places, checks)
		}
		if places && to.Destination(nil).Name != "here" || checks && !errors.Is(check.Check(t.Context())[0], errCheck) {
			t.Errorf("%s: something else answers", name)
		}
		if answers := s.Deliver(t.Context(), []*sink.Delivery{delivery("1", strings.Repeat("a", 5000)), delivery("2", "")}); answers != nil {
			t.Error(answers)
		}
	}
}
