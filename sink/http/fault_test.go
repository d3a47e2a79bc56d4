package http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/sinktest"
)

// rawServer answers connections by hand: serve gets each connection and its number, from 1.
func rawServer(t *testing.T, serve func(c net.Conn, n int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c, n)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func class(t *testing.T, answers []error) sink.Class {
	t.Helper()
	if len(answers) == 0 {
		t.Fatal("delivered, want an error")
	}
	c, _, _ := sink.Classify(answers[0])
	return c
}

// TestNoAnswer breaks connections at each step. Until something was written, that is unreachable; afterwards the message
// may have been accepted.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	readRequest := func(c net.Conn) *nethttp.Request {
		r, err := nethttp.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil {
			return nil
		}
		return r
	}
	for _, test := range []struct {
		name  string
		serve func(net.Conn, int)
		class sink.Class
		says  string
	}{
		{"closed after the request", func(c net.Conn, _ int) { readRequest(c) }, sink.ClassUnavailable, "possible duplicate"},
		{"reset after the request", func(c net.Conn, _ int) {
			readRequest(c)
			if err := c.(*net.TCPConn).SetLinger(0); err != nil {
				t.Error(err)
			}
		}, sink.ClassUnavailable, "possible duplicate"},
		{"half an answer", func(c net.Conn, _ int) {
			readRequest(c)
			io.WriteString(c, "HTTP/1.1 200 O") //nolint:errcheck // The client sees it.
		}, sink.ClassUnavailable, "possible duplicate"},
		{"not HTTP", func(c net.Conn, _ int) {
			readRequest(c)
			io.WriteString(c, "SSH-2.0\r\n\r\n") //nolint:errcheck // The client sees it.
		}, sink.ClassUnavailable, "possible duplicate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, http.Config{URL: rawServer(t, test.serve), Format: http.Single})
			answers := s.Deliver(t.Context(), deliveries(1))
			if got := class(t, answers); got != test.class || !strings.Contains(answers[0].Error(), test.says) {
				t.Errorf("%v: %v, want %v", got, answers[0], test.class)
			}
		})
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	silent := "https://" + strings.TrimPrefix(rawServer(t, func(c net.Conn, _ int) { io.Copy(io.Discard, c) }), "http://") //nolint:errcheck // Silence.
	plain := "https://" + strings.TrimPrefix(rawServer(t, func(c net.Conn, _ int) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad\r\n\r\n") }), "http://")
	for name, url := range map[string]string{"refused": refused, "no such host": "http://tailbox.invalid/", "TLS handshake unanswered": silent, "no TLS": plain} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, http.Config{URL: url, ConnectTimeout: 300 * time.Millisecond})
			if answers := s.Deliver(t.Context(), deliveries(2)); class(t, answers) != sink.ClassUnreachable {
				t.Errorf("%v, want unreachable", answers)
			}
			if len(s.Check(t.Context())) != 1 {
				t.Error("check finds nothing wrong")
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	e := newEndpoint(t, func(nethttp.ResponseWriter, *nethttp.Request) { <-release })
	s := newSink(t, http.Config{URL: e.url(), Timeout: 100 * time.Millisecond})
	answers := s.Deliver(t.Context(), deliveries(2))
	if class(t, answers) != sink.ClassUnavailable || !strings.Contains(answers[0].Error(), "100ms") {
		t.Errorf("%v, want unavailable, no answer within 100ms", answers)
	}
	if _, _, whole := sink.Classify(answers[1]); !whole {
		t.Error("the guilty one of two is not known, but the answer is not about the whole")
	}
}

// TestSlowBody answers 200 and then takes its time: the message is delivered when the status is there.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	e := newEndpoint(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		io.WriteString(w, "part") //nolint:errcheck // The client sees it.
		w.(nethttp.Flusher).Flush()
		<-release
	})
	for _, results := range []bool{false, true} {
		s := newSink(t, http.Config{URL: e.url(), Results: results, Timeout: 3 * time.Second})
		answers := s.Deliver(t.Context(), deliveries(1))
		if !results && answers != nil {
			t.Errorf("answers: %v", answers)
		}
		if results && class(t, answers) != sink.ClassUnavailable {
			t.Errorf("answers without results: %v", answers)
		}
	}
}

// TestEarlyAnswer answers before it has read the body, which the sink must not recycle before its time.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	url := rawServer(t, func(c net.Conn, _ int) {
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // The client sees it.
		io.Copy(io.Discard, r)                                                                        //nolint:errcheck // Until the client gives up.
	})
	s := newSink(t, http.Config{URL: url, Format: http.Single})
	for range 20 {
		d := deliveries(1)
		d[0].Value = make([]byte, 8<<20)
		if got := class(t, s.Deliver(t.Context(), d)); got != sink.ClassPermanent {
			t.Fatalf("class %v, want permanent", got)
		}
	}
}

// TestNeverTwice closes a connection that was used before at the moment of its second request. The client must not send
// it again by itself, on whatever connection, for each attempt is the relay's to count.
func TestNeverTwice(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, ``} {
		var requests atomic.Int64
		url := rawServer(t, func(c net.Conn, _ int) {
			r := bufio.NewReader(c)
			for {
				req, err := nethttp.ReadRequest(r)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				if requests.Add(1) == 2 {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // The client sees it.
			}
		})
		s := newSink(t, http.Config{URL: url, Format: http.Single})
		d := deliveries(1)
		d[0].Value = []byte(payload)
		if answers := s.Deliver(t.Context(), d); answers != nil {
			t.Fatal(answers)
		}
		if got := class(t, s.Deliver(t.Context(), d)); got != sink.ClassUnavailable {
			t.Errorf("class %v, want unavailable", got)
		}
		if got := requests.Load(); got != 2 {
			t.Errorf("%d requests for 2 deliveries", got)
		}
	}
}

// TestStaleConnections closes idle connections on the server's side: the next delivery takes a new one, and no attempt
// is lost.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 100)
	url := rawServer(t, func(c net.Conn, _ int) {
		req, err := nethttp.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)                                     //nolint:errcheck // The answer shows it.
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // The client sees it.
		c.Close()
		closed <- struct{}{}
	})
	s := newSink(t, http.Config{URL: url, Format: http.Single})
	sinktest.Eventually(t, "20 deliveries in a row on connections that the server closed", func() bool {
		for range 20 {
			if answers := s.Deliver(t.Context(), deliveries(1)); answers != nil {
				// The close crossed the request: whether it was taken is not known.
				if got := class(t, answers); got != sink.ClassUnavailable && got != sink.ClassUnreachable {
					t.Fatalf("class %v: %v", got, answers[0])
				}
				return false
			}
			<-closed
		}
		return true
	})
}

// TestCancelBeforeConnecting ends the context while the connection is being made: nothing was tried.
func TestCancelBeforeConnecting(t *testing.T) {
	t.Parallel()
	url := "https://" + strings.TrimPrefix(rawServer(t, func(c net.Conn, _ int) { io.Copy(io.Discard, c) }), "http://") //nolint:errcheck // Silence.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := class(t, newSink(t, http.Config{URL: url}).Deliver(ctx, deliveries(1))); got != sink.ClassNotAttempted {
		t.Errorf("class %v, want not attempted", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ProtoMajor != 1 || len(r.TLS.PeerCertificates) != 1 {
			w.WriteHeader(500)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = newEndpoint(t, nil).server.ErrorLog
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	pair := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{ca: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		tls     *sink.TLS
		class   sink.Class
		good    bool
		checked bool
	}{
		{name: "both", tls: &sink.TLS{CA: ca, Cert: cert, Key: key}, good: true, checked: true},
		{name: "another name", tls: &sink.TLS{CA: ca, Cert: cert, Key: key, ServerName: "example.com"}, good: true, checked: true},
		{name: "wrong name", tls: &sink.TLS{CA: ca, Cert: cert, Key: key, ServerName: "wrong.example"}, class: sink.ClassUnreachable},
		{name: "unverified", tls: &sink.TLS{InsecureSkipVerify: true, Cert: cert, Key: key}, good: true, checked: true},
		{name: "unknown authority", class: sink.ClassUnreachable},
		{name: "no client certificate", tls: &sink.TLS{CA: ca}, class: sink.ClassMisconfigured, checked: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, http.Config{URL: server.URL, TLS: test.tls})
			if problems := s.Check(t.Context()); (len(problems) == 0) != test.checked {
				t.Errorf("check: %v", problems)
			}
			answers := s.Deliver(t.Context(), deliveries(2))
			// The server's refusal comes after the handshake, and the connection's end may hide it: then nobody can tell.
			for range 50 {
				if test.good || class(t, answers) == test.class || class(t, answers) != sink.ClassUnavailable {
					break
				}
				answers = s.Deliver(t.Context(), deliveries(2))
			}
			switch {
			case test.good && answers != nil:
				t.Errorf("answers: %v", answers)
			case !test.good && class(t, answers) != test.class:
				t.Errorf("answers: %v, want %v", answers, test.class)
			}
		})
	}
}

// BenchmarkSingle has an endpoint that answers after 10 ms, and 256 requests in flight.
func BenchmarkSingle(b *testing.B) {
	e := newEndpoint(b, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // The answer shows it.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.Context().Done():
		}
	})
	s := newSink(b, http.Config{URL: e.url(), Format: http.Single, Concurrency: 256})
	value := []byte(`{"order":12345,"lines":[{"sku":"A-1","quantity":2},{"sku":"B-2","quantity":1}],"total":"129.90","currency":"EUR"}`)
	b.ReportAllocs()
	b.SetParallelism(128) // times GOMAXPROCS = 256 on two cores
	b.RunParallel(func(pb *testing.PB) {
		d := &sink.Delivery{Message: &outbox.Message{ID: "0198c0de-0000-7000-8000-000000000001", Type: "OrderPlaced", Group: "customer-17"},
			Value: value, Attempt: 1, Source: "shop"}
		ds := []*sink.Delivery{d}
		for pb.Next() {
			if answers := s.Deliver(b.Context(), ds); answers != nil {
				b.Error(answers[0])
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
