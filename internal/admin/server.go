package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is what a Server is made of.
type Config struct {
	// Listen is an address, host:port.
	Listen string
	// TLS, if not nil, is how the server speaks TLS, and nothing else.
	TLS *tls.Config
	// Known, if not nil, reports whether a request brings a token that somebody holds. Then /readyz says why the relay is not ready.
	Known func(*http.Request) bool
	// Scrapes, if not nil, reports whether a request may read the metrics.
	Scrapes func(*http.Request) bool
	// Gatherer holds the metrics.
	Gatherer prometheus.Gatherer
	// Pages, if not nil, serves all other paths: the HTTP API and the console.
	Pages http.Handler
	// Ready answers /readyz.
	Ready  func() (ok bool, state, why string)
	Logger *slog.Logger
}

const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	shutdownTimeout = 2 * time.Second
)

// A Server is made by Listen.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the address. Run serves it.
func Listen(ctx context.Context, c Config) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve metrics and health: %w: choose another admin.listen, or off", err)
	}
	return &Server{listener: listener, http: &http.Server{Handler: handler(c), TLSConfig: c.TLS, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn)}}, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, and then lets requests in flight end.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- s.http.Shutdown(grace)
	})
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	err := serve(s.listener)
	if stop() {
		return fmt.Errorf("serve metrics and health: %w", err)
	}
	err = <-stopped
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("stop serving metrics and health: %w", err)
	}
	return nil
}

func handler(c Config) http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn)})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if c.Scrapes != nil && !c.Scrapes(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="tailbox"`)
			answer(w, http.StatusUnauthorized, "send the token of admin.metrics_token_file in the header Authorization: Bearer …")
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ok, text, why := c.Ready()
		// Why may name the database's user, name and host.
		if why != "" && (here(r) || c.Known != nil && c.Known(r)) {
			text += ": " + why
		}
		if !ok {
			answer(w, http.StatusServiceUnavailable, text)
			return
		}
		answer(w, http.StatusOK, text)
	})
	if c.Pages == nil {
		c.Pages = http.NotFoundHandler()
	}
	mux.Handle("/", c.Pages)
	return mux
}

// here reports whether a request comes from this machine and is addressed to it, and no proxy on it says that it passes one on. A page of another site
// whose name was pointed at this machine (DNS rebinding) is addressed to that name.
func here(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	if to := net.ParseIP(strings.Trim(name, "[]")); !strings.EqualFold(name, "localhost") && (to == nil || !to.IsLoopback()) {
		return false
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return false
	}
	return r.Header.Get("Forwarded") == "" && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("X-Real-Ip") == "" && r.Header.Get("Via") == ""
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// Nobody is left to tell when the client is gone.
	_, _ = w.Write([]byte(text + "\n"))
}
