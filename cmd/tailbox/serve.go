package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/api"
	"github.com/tailbox/tailbox/internal/console"
	"github.com/tailbox/tailbox/internal/history"
	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/outbox"
)

// serve opens admin.listen, and serves metrics, health, API and console beside the relay.
func (r *reloader) serve(ctx context.Context, t *tasks, p *pipeline.Pipeline, metrics prometheus.Gatherer, watched *tail.Hub) (err error) {
	c := &p.Config.Admin
	if c.Listen == "" {
		return nil
	}
	var secure *tls.Config
	if c.CertFile != "" {
		if secure, err = admin.TLS(c.CertFile, c.KeyFile, r.log); err != nil {
			return err
		}
	}
	past := history.New(r.metrics.Totals)
	var write func(context.Context, string, outbox.Draft) (string, string, error)
	if c.Send {
		write = r.write
	}
	pages := newPages(api.Config{Write: write, Pipeline: p.Config.Pipeline, Started: time.Now(), Database: r.db, Sinks: r.sinkNames, Kind: r.kindOf, State: r.metrics.SinkState,
		History: past.Since, Tail: watched, Reload: r.reload, Configuration: r.effective, Tokens: r.tokens, Hide: r.hide, Logger: r.log})
	server, err := admin.Listen(ctx, admin.Config{Listen: c.Listen, TLS: secure, Known: r.tokens.Known, Scrapes: r.tokens.Scrapes,
		Gatherer: metrics, Pages: pages, Ready: r.metrics.Ready, Logger: r.log})
	if err != nil {
		return err
	}
	r.log.Info("serving metrics and health", "address", server.Addr(), "console", !r.tokens.None())
	t.beside(server.Run)
	t.aside(past.Run)
	t.aside(func(ctx context.Context) { <-ctx.Done(); watched.Close() })
	return nil
}

// write writes a message for the API.
func (r *reloader) write(ctx context.Context, table string, d outbox.Draft) (id, of string, err error) {
	p := r.inForce()
	t, err := p.Table(table)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", api.ErrNoTable, err)
	}
	id, err = p.Send(ctx, r.db, t, d)
	return id, strings.TrimPrefix(t.String(), "."), err
}

// newPages returns what serves the HTTP API and its console, while anybody holds a token for them. They are made when they are first needed.
func newPages(c api.Config) http.Handler {
	pages := sync.OnceValue(func() http.Handler {
		c.Version, _ = buildVersion()
		operations := api.New(c)
		mux := http.NewServeMux()
		mux.Handle("/api/", operations)
		mux.Handle("/", console.New(console.Config{Pipeline: c.Pipeline, API: operations, Tokens: c.Tokens, Logger: c.Logger}))
		return mux
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Tokens.None() {
			http.NotFound(w, r)
			return
		}
		pages().ServeHTTP(w, r)
	})
}
