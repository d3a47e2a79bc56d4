package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"maps"
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
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store/report"
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
		Long: "It makes no tables: run tailbox init first. On SIGTERM or SIGINT it finishes what is in flight, within shutdown_timeout;\n" +
			"a second one ends it at once, and the next start repeats what was not settled. SIGHUP reads the configuration again and\n" +
			"goes on with it; a run that has a terminal ends softly instead, since a terminal that closes sends the same. Several\n" +
			"processes of one pipeline may run: one relays, the others stand by.",
		Example: "tailbox run -c tailbox.yaml",
		Flags:   func(fs *flag.FlagSet) { pipeline.ConfigFlag(fs, &file) },
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			r := &reloader{hangups: hangupsOf(sh), load: func(ctx context.Context) (*pipeline.Pipeline, error) { return pipeline.Load(ctx, sh, file) }}
			p, err := r.load(ctx)
			if err != nil {
				return err
			}
			return runRelay(ctx, sh, r, p)
		},
	}
}

// hangupsOf takes SIGHUP over, if it can be.
func hangupsOf(sh *cli.Shell) <-chan struct{} {
	if sh.Hangups == nil {
		return nil
	}
	return sh.Hangups()
}

// runRelay runs a relay with its metrics until ctx ends, or sh.now is closed.
func runRelay(ctx context.Context, sh *cli.Shell, rel *reloader, p *pipeline.Pipeline) (err error) {
	// A reader of our output that goes away is the sink's failure, not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	tracing, err := readTracing(sh)
	if err != nil {
		return err
	}
	log := newLogger(sh.Err, p.Config.Log, &rel.level)
	sinks, err := p.OpenSinks(ctx)
	if err != nil {
		return err
	}
	rel.begin(p, sinks, log)
	defer func() {
		if errors.Is(err, errAtOnce) {
			return // calls are still running, and the process ends now
		}
		err = errors.Join(err, rel.closeSinks(ctx))
	}()
	registry := prometheus.NewRegistry()
	if rel.metrics, err = admin.NewMetrics(registry, labels(p.Config), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
		return err
	}
	metrics := rel.metrics
	p.Feedback = countFeedback(p.Config.Source.Tables, metrics.Feedback)
	rel.db = p.Database(log, logUpdates(ctx, &p.Config.Source, log, metrics.Ignored))
	var tick time.Duration // 0: the relay's own
	asking := observeEvery
	if p.Config.Source.Poll {
		tick, asking = pollTick, pollObserveEvery
	}
	watched := &tail.Hub{}
	t, events := &tasks{now: sh.Now}, rel.events(metrics.Events())
	t.aside(forgetStart(onReading(&events)))
	rel.tracer = newTracer(tracing, p, metrics, log)
	events.Deliveries = onAnswers(watched, rel.tracer)
	rel.relay, err = relay.New(relay.Config{
		Pipeline: p.Config.Pipeline, Source: rel.db.Source(), Sinks: sinks, Router: p.Config.Router,
		Open: rel.db.Open,
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
	if err := rel.serve(ctx, t, p, registry, watched); err != nil {
		return err
	}
	t.aside(func(ctx context.Context) { boundHeap(ctx, &rel.memory) })
	t.aside(followLoad)
	t.aside(func(ctx context.Context) { warnOfSinks(ctx, log, sinks, p.Hide) })
	rel.alerts = newAlerts(metrics)
	first, err := newAlerting(ctx, p, rel.onRefusal, log)
	if err != nil {
		return err
	}
	t.aside(func(ctx context.Context) { rel.alerts.run(ctx, first) })
	t.aside(func(ctx context.Context) {
		observe(ctx, log, rel.db, asking, func(r *report.Status) {
			if r != nil {
				metrics.Observe(statusOf(r))
			}
			rel.alerts.know(r)
		})
	})
	if rel.tracer != nil {
		t.aside(rel.tracer.Run)
	}
	t.aside(rel.onHangups)
	t.aside(rel.onRefusals)
	log.Info("starting", "pipeline", p.Config.Pipeline, "sinks", len(sinks))
	if err = t.run(ctx, rel.relay.Run); !errors.Is(err, errAtOnce) {
		log.Info("stopped")
	}
	return err
}

// onReading returns a channel that gets a value when the relay begins to read the log.
func onReading(e *relay.Events) <-chan struct{} {
	reads, state := make(chan struct{}, 1), e.State
	e.State = func(now, why string) {
		state(now, why)
		if now == admin.StateTailing {
			select {
			case reads <- struct{}{}:
			default: // it has begun before
			}
		}
	}
	return reads
}

// tasks runs one main task and others beside it.
type tasks struct {
	now    <-chan struct{}
	others []func(context.Context) error
}

func (t *tasks) beside(f func(context.Context) error) { t.others = append(t.others, f) }

// aside is beside for what cannot fail.
func (t *tasks) aside(f func(context.Context)) {
	t.beside(func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

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
func warnOfSinks(ctx context.Context, log *slog.Logger, sinks map[string]sink.Sink, hide func(string) string) {
	for name, problems := range askSinks(ctx, sinks) {
		for _, err := range problems {
			if ctx.Err() == nil {
				log.Warn("sink is misconfigured", "sink", name, "error", hide(err.Error()))
			}
		}
	}
}

// newLogger makes the logger that the configuration asks for. Its level can change.
func newLogger(w io.Writer, c config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(c.Level)
	options := &slog.HandlerOptions{Level: level}
	if c.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
