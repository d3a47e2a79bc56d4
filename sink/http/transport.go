package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/internal/socket"
	"github.com/tailbox/tailbox/sink"
)

func newTransport(cfg Config, tlsConfig *tls.Config) *nethttp.Transport {
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 15 * time.Second}
	t := &nethttp.Transport{
		Proxy: nethttp.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &conn{Conn: socket.Quiet(nc)}, nil
		},
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: cfg.ConnectTimeout,
		// The relay keeps to Limits.Concurrency, so that these connections are all there are.
		MaxIdleConns:        cfg.Concurrency,
		MaxIdleConnsPerHost: cfg.Concurrency,
		IdleConnTimeout:     cfg.IdleTimeout,
		DisableCompression:  true,
		Protocols:           new(nethttp.Protocols),
		// The default of 10 MiB takes 160 MB of memory a call if the headers are short.
		MaxResponseHeaderBytes: 64 << 10,
		// Answers are small, and there may be many connections.
		ReadBufferSize:  4 << 10,
		WriteBufferSize: writeBuffer,
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// dial connects as the transport does; where there is a proxy, to that alone.
func (s *Sink) dial(ctx context.Context) (net.Conn, error) {
	proxy, err := s.transport.Proxy(&nethttp.Request{URL: s.url})
	if err != nil {
		return nil, fmt.Errorf("read HTTP_PROXY or HTTPS_PROXY: %w", err)
	}
	u := s.url
	if proxy != nil {
		u = proxy
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	nc, err := s.transport.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme != "https" || proxy != nil {
		return nc, err
	}
	cfg := new(tls.Config)
	if s.transport.TLSClientConfig != nil {
		cfg = s.transport.TLSClientConfig.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = s.url.Hostname()
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return tc, nil
}

// conn counts writes, to tell whether anything of a request can have reached the server.
type conn struct {
	net.Conn
	writes atomic.Int64
}

// Write counts itself before it writes, so that a write which is still running counts as well.
func (c *conn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(b)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// attempt watches the connection of one request.
type attempt struct {
	conn atomic.Pointer[conn]
	// before is how many writes the connection had when the request got it.
	before atomic.Int64
	// blind is set where the connection is not one of ours, and nothing is known.
	blind atomic.Bool
}

func (a *attempt) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		nc := info.Conn
		if t, ok := nc.(*tls.Conn); ok {
			nc = t.NetConn()
		}
		c, ok := nc.(*conn)
		if !ok {
			a.blind.Store(true)
			return
		}
		a.before.Store(c.writes.Load())
		a.conn.Store(c)
	}})
}

// written reports whether a byte of the request may have been written.
func (a *attempt) written() bool {
	c := a.conn.Load()
	return a.blind.Load() || c != nil && c.writes.Load() > a.before.Load()
}

// errTimeout is the cause of a request's end that the configuration's timeout brought about.
var errTimeout = errors.New("timeout")

// failed classifies a request that got no answer.
func (s *Sink) failed(ctx context.Context, a *attempt, err error) error {
	timeout := errors.Is(context.Cause(ctx), errTimeout)
	switch {
	case refusedTLS(err):
		return sink.Misconfigured(fmt.Errorf("post to %s: %w: the endpoint refuses the TLS handshake: check tls.cert and tls.key", s.target, err))
	case a.written() && timeout:
		return sink.Unavailable(fmt.Errorf("post to %s: no answer within %v (possible duplicate: the endpoint may have accepted it)",
			s.target, s.cfg.Timeout))
	case a.written():
		return sink.Unavailable(fmt.Errorf("post to %s: no answer (possible duplicate: the endpoint may have accepted it): %w", s.target, err))
	case timeout:
		return sink.Unreachable(fmt.Errorf("post to %s: no connection within %v", s.target, s.cfg.Timeout))
	case ctx.Err() != nil:
		return sink.NotAttempted(fmt.Errorf("post to %s: %w", s.target, err))
	}
	return sink.Unreachable(fmt.Errorf("post to %s: %w", s.target, err))
}

// refusedTLS reports whether the server sent a TLS alert. With TLS 1.3 the alert about a client's certificate comes after
// the request was written, and looks like a lost answer, but the server has not read it.
func refusedTLS(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
