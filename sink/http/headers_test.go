package http_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/sinktest"
)

// TestEndlessAnswerHeaders has an endpoint that answers with more headers than anyone should keep in memory.
func TestEndlessAnswerHeaders(t *testing.T) {
	t.Parallel()
	address := rawServer(t, func(c net.Conn, _ int) {
		if req, err := nethttp.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"))
		_, _ = c.Write(bytes.Repeat([]byte("uv4:\r\n"), 1<<20/6))
		_, _ = c.Write([]byte("\r\n"))
	})
	s := newSink(t, http.Config{URL: address})
	answers := sinktest.Call(t.Context(), t, s, deliveries(1))
	if len(answers) == 0 || answers[0] == nil || !strings.Contains(answers[0].Error(), "headers exceeded") {
		t.Fatalf("answers %v, want an error about the headers", answers)
	}
	if got := class(t, answers); got == sink.ClassPermanent {
		t.Errorf("class %v: the endpoint may have accepted the message, and another answer may be right", got)
	}
}

// TestPrivilegedHeaders: a row does not decide on whose behalf a request is made, unless the configuration says that it may.
func TestPrivilegedHeaders(t *testing.T) {
	t.Parallel()
	names := []string{"authorization", "COOKIE", "Forwarded", "X-Forwarded-For", "x-real-ip", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}
	for _, pass := range [][]string{nil, {"cookie", "x-forwarded-for"}} {
		m := message()
		m.Message.Headers = []outbox.Header{{Name: "x-own", Value: []byte("1")}}
		for _, name := range names {
			m.Message.Headers = append(m.Message.Headers, outbox.Header{Name: name, Value: []byte("forged")})
		}
		got, answers := request(t, http.Config{Format: http.Single, PassHeaders: pass}, m)
		if answers != nil {
			t.Fatal(answers)
		}
		var passed []string
		for _, name := range names {
			if got.header.Get(name) == "forged" {
				passed = append(passed, strings.ToLower(name))
			}
		}
		if fmt.Sprint(passed) != fmt.Sprint(pass) || got.header.Get("X-Own") != "1" {
			t.Errorf("pass_headers %v: passed %v, own header %q", pass, passed, got.header.Get("X-Own"))
		}
	}
	if err := (http.Config{URL: "http://127.0.0.1/", PassHeaders: []string{"x-own"}}).Validate(); err == nil || !strings.Contains(err.Error(), "pass_headers.0") {
		t.Errorf("pass_headers with another header: %v", err)
	}
}

// TestEndedContext: nothing is sent once the context has ended.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(nethttp.ResponseWriter, *nethttp.Request) { t.Error("a request was sent") })
	s := newSink(t, http.Config{URL: e.url()})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	for i, err := range s.Deliver(ctx, deliveries(3)) {
		if class, _, _ := sink.Classify(err); class != sink.ClassNotAttempted || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("answer %d: %v: %v", i, class, err)
		}
	}
}
