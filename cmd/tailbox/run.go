package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/api"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/console"
	"github.com/tailbox/tailbox/internal/history"
	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
)

const (
	// observeEvery is how often the database is asked for what only it knows, for the metrics.
	observeEvery = 15 * time.Second
	// Where the log cannot be read, the database is to be left alone while nothing happens: it is asked for that, and for what
	// operators want, less often.
	pollObserveEvery, pollTick = time.Minute, 4 * time.Second
	// closeTimeout bounds closing the sinks.
	closeTimeout = 5 * time.Second
)

func newRun() *cli.Command {
	var file string
	return &cli.Command{
		Name: "run", About: "relays messages until it is told to stop",
		Long: "It makes no tables: run tailbox init first. On SIGTERM, SIGINT or SIGHUP it finishes what is in flight, within\n" +
			"shutdown_timeout; a second SIGTERM or SIGINT ends it at once, and the next start repeats what was not settled. Several\n" +
			"processes of one pipeline may run: one relays, the others stand by.",
		Example: "tailbox run -c tailbox.yaml",
		Flags:   func(fs *flag.FlagSet) { pipeline.ConfigFlag(fs, &file) },
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			return runRelay(ctx, sh, p, newLogger(sh.Err, p.Config.Log))
		},
	}
}

// runRelay runs a relay with its metrics until ctx ends, or sh.now is closed.
func runRelay(ctx context.Context, sh *cli.Shell, p *pipeline.Pipeline, log *slog.Logger) (err error) {
	// A reader of our output that goes away is the sink's failure, not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	sinks, err := p.OpenSinks(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, errAtOnce) {
			return // calls are still running, and the process ends now
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, pipeline.CloseSinks(closing, sinks))
	}()
	registry := prometheus.NewRegistry()
	metrics, err := admin.NewMetrics(registry, labels(p.Config), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err != nil {
		return err
	}
	p.Feedback = countFeedback(p.Config.Source.Tables, metrics.Feedback)
	db := p.Database(log, logUpdates(ctx, &p.Config.Source, log, metrics.Ignored))
	var tick time.Duration // 0: the relay's own
	asking := observeEvery
	if p.Config.Source.Poll {
		tick, asking = pollTick, pollObserveEvery
	}
	watched := &tail.Hub{}
	events := metrics.Events()
	events.Deliveries = func(name string, ds []*sink.Delivery, errs []error) { watched.Answered(name, ds, errs, time.Now()) }
	r, err := relay.New(relay.Config{
		Pipeline: p.Config.Pipeline, Source: db.Source(), Sinks: sinks, Router: p.Config.Router,
		Open: db.Open,
		Tick: tick,
		Hide: p.Hide,
		Kept: kept(p.Config.Source.Tables), Receipts: receipts(p.Config.Source.Tables),
		Ours: ours(p.Config.Source.Tables), Cleanup: cleanup(&p.Config.Source),
		Memory: p.Config.Memory, Reconcile: p.Config.Source.Reconcile, ShutdownTimeout: p.Config.ShutdownTimeout,
		Events: events, Logger: log,
	})
	if err != nil {
		return err
	}
	t := &tasks{now: sh.Now}
	if p.Config.Admin.Listen != "" {
		tokens := api.NewTokens(&p.Config.Admin, log)
		past := history.New(metrics.Totals)
		operations, pages := newConsole(api.Config{Pipeline: p.Config.Pipeline, Started: time.Now(), Database: db, Sinks: p.Config.Router.Sinks(), State: metrics.SinkState,
			History: past.Since, Tail: watched, Tokens: tokens, Hosts: p.Config.Admin.Hosts, Configuration: p.Effective, Hide: p.Hide, Logger: log})
		var secure *tls.Config
		if p.Config.Admin.CertFile != "" {
			if secure, err = admin.TLS(p.Config.Admin.CertFile, p.Config.Admin.KeyFile, log); err != nil {
				return err
			}
		}
		server, err := admin.Listen(ctx, admin.Config{Listen: p.Config.Admin.Listen, TLS: secure, Known: tokens.Known, Scrapes: tokens.Scrapes,
			Gatherer: registry, API: operations, Console: pages, Ready: metrics.Ready, Logger: log})
		if err != nil {
			return err
		}
		log.Info("serving metrics and health", "address", server.Addr(), "console", operations != nil)
		t.beside(server.Run)
		if operations != nil {
			t.beside(func(ctx context.Context) error { past.Run(ctx); return nil })
			t.beside(func(ctx context.Context) error { <-ctx.Done(); watched.Close(); return nil })
		}
	}
	t.beside(func(ctx context.Context) error { boundHeap(ctx, p.Config.Memory); return nil })
	t.beside(func(ctx context.Context) error { warnOfSinks(ctx, log, sinks); return nil })
	t.beside(func(ctx context.Context) error { observe(ctx, log, db, metrics, asking); return nil })
	log.Info("starting", "pipeline", p.Config.Pipeline, "sinks", len(sinks))
	if err = t.run(ctx, r.Run); !errors.Is(err, errAtOnce) {
		log.Info("stopped")
	}
	return err
}

// newConsole returns the HTTP API and its console; nil if nobody holds a token for them.
func newConsole(c api.Config) (operations, pages http.Handler) {
	if c.Tokens.None() {
		return nil, nil
	}
	c.Version, _ = buildVersion()
	operations = api.New(c)
	return operations, console.New(console.Config{Pipeline: c.Pipeline, API: operations, Tokens: c.Tokens, Hosts: c.Hosts, Logger: c.Logger})
}

// tasks runs one main task and others beside it.
type tasks struct {
	now    <-chan struct{}
	others []func(context.Context) error
}

func (t *tasks) beside(f func(context.Context) error) { t.others = append(t.others, f) }

var errAtOnce = errors.New("stopped at once: what was not settled yet is delivered again by the next start")

// run runs all tasks until the main one ends; the others serve it to its end. An error of another task stops the main one. When
// now is closed nothing is waited for.
func (t *tasks) run(ctx context.Context, main func(context.Context) error) error {
	soft, stop := context.WithCancel(ctx)
	defer stop()
	aside, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	errs := make(chan error, len(t.others))
	var wg sync.WaitGroup
	for _, f := range t.others {
		wg.Go(func() {
			if err := f(aside); err != nil {
				errs <- err
				stop()
			}
		})
	}
	ended := make(chan error, 1)
	go func() {
		err := main(soft)
		end()
		wg.Wait()
		close(errs)
		for other := range errs {
			err = errors.Join(err, other)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-t.now:
	}
	select {
	case err := <-ended: // both at once: it ended softly
		return err
	default:
		return errAtOnce
	}
}

// labels are what the metrics' labels can be.
func labels(c *config.Config) admin.Labels {
	v, hash := buildVersion()
	l := admin.Labels{Pipeline: c.Pipeline, Sinks: c.Router.Sinks(), Version: v, Commit: hash}
	for _, route := range c.Router.Routes() {
		l.Routes = append(l.Routes, admin.RouteLabels{Name: route.Name, Sinks: route.To})
	}
	for i := range c.Source.Tables {
		t := &c.Source.Tables[i]
		for _, outcome := range slices.Sorted(maps.Keys(t.Feedback)) {
			l.Feedback = append(l.Feedback, admin.FeedbackLabels{Table: configuredName(t), Outcome: outcome})
		}
	}
	return l
}

// warnOfSinks tells what is wrong with sinks, so that it is known before the first message. The relay runs all the same.
func warnOfSinks(ctx context.Context, log *slog.Logger, sinks map[string]sink.Sink) {
	for name, problems := range askSinks(ctx, sinks) {
		for _, err := range problems {
			if ctx.Err() == nil {
				log.Warn("sink is misconfigured", "sink", name, "error", err)
			}
		}
	}
}

// newLogger makes the logger that the configuration asks for.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	if c.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
