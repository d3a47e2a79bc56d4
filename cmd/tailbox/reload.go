package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/api"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/trace"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
)

// A reloader makes a relay that runs go on with another configuration. What can be found wrong with that one is found before anything stops.
type reloader struct {
	hangups <-chan struct{}
	load    func(context.Context) (*pipeline.Pipeline, error)
	log     *slog.Logger
	level   slog.LevelVar
	memory  atomic.Int64
	tokens  *api.Tokens
	metrics *admin.Metrics
	db      operate.Database
	relay   *relay.Relay
	alerts  *alerts
	tracer  *trace.Tracer // nil: tracing is off
	// refused is told when a destination refuses the relay itself.
	refused chan struct{}

	// busy is held by the one who reloads.
	busy sync.Mutex
	// What is in force: the relay's goroutine sets it between two terms.
	mu      sync.Mutex
	running *pipeline.Pipeline
	sinks   map[string]sink.Sink
}

// begin notes what the relay starts with.
func (r *reloader) begin(p *pipeline.Pipeline, sinks map[string]sink.Sink, log *slog.Logger) {
	r.log, r.running, r.sinks, r.refused = log, p, sinks, make(chan struct{}, 1)
	r.tokens = api.NewTokens(&p.Config.Admin, log)
	r.memory.Store(p.Config.Memory)
}

func (r *reloader) inForce() *pipeline.Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

func (r *reloader) sinkNames() []string { return r.inForce().Config.Router.Sinks() }

func (r *reloader) kindOf(sink string) string { return r.inForce().Kind(sink) }

func (r *reloader) effective() string { return r.inForce().Effective }

func (r *reloader) hide(text string) string { return r.inForce().Hide(text) }

// closeSinks closes the sinks that are in use.
func (r *reloader) closeSinks(ctx context.Context) error {
	r.mu.Lock()
	sinks := r.sinks
	r.mu.Unlock()
	return closeAll(ctx, sinks)
}

// onHangups reloads on SIGHUP until ctx ends.
func (r *reloader) onHangups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangups:
		}
		r.busy.Lock()
		// The log has told what came of it.
		_, _ = r.fromFile(ctx, false)
		r.busy.Unlock()
	}
}

// errBusy is temporary, unlike a configuration that is refused.
var errBusy = errors.New("another reload is under way: ask again when it has ended")

// reload is that of the API.
func (r *reloader) reload(ctx context.Context, dryRun bool) (*api.Reloaded, error) {
	if !r.busy.TryLock() {
		return nil, errBusy
	}
	defer r.busy.Unlock()
	return r.fromFile(ctx, dryRun)
}

// fromFile reads the file again.
func (r *reloader) fromFile(ctx context.Context, dryRun bool) (*api.Reloaded, error) {
	next, err := r.load(ctx)
	if err != nil {
		return nil, r.told(refuse(err), dryRun)
	}
	return r.take(ctx, next, dryRun)
}

// take goes on with another configuration, if it can be, and tells what came of it.
func (r *reloader) take(ctx context.Context, next *pipeline.Pipeline, dryRun bool) (*api.Reloaded, error) {
	done := &api.Reloaded{Changed: append([]string{}, r.inForce().Changed(next)...)} // none is [] and not null
	err := r.judge(ctx, next)
	if err == nil {
		done.Warnings, err = r.exchange(ctx, next, dryRun)
	}
	if err != nil {
		return nil, r.told(err, dryRun)
	}
	if !dryRun {
		r.log.Info("the configuration was read again, and is in force", "changed", strings.Join(done.Changed, ","))
	}
	return done, nil
}

// told logs and counts an error, without the secrets that it may repeat.
func (r *reloader) told(err error, dryRun bool) error {
	text := r.hide(strings.TrimPrefix(err.Error(), api.ErrRefused.Error()+": "))
	if !dryRun {
		r.metrics.ReloadTried(err)
		r.log.Error("the configuration was not reloaded: that in force stays", "error", text)
	}
	if errors.Is(err, api.ErrRefused) {
		return refuse(errors.New(text))
	}
	return errors.New(text)
}

func refuse(err error) error { return fmt.Errorf("%w: %w", api.ErrRefused, err) }

// judge refuses what a relay cannot take over while it runs.
func (r *reloader) judge(ctx context.Context, next *pipeline.Pipeline) error {
	old := r.inForce()
	if keys := config.Fixed(old.Config, next.Config); len(keys) > 0 {
		return refuse(fmt.Errorf("%s cannot change while the relay runs: put it back as it was, or restart the relay", strings.Join(keys, ", ")))
	}
	var found []check.Finding
	for _, name := range old.Config.Router.Sinks() {
		if !slices.Contains(next.Config.Router.Sinks(), name) {
			found = append(found, checkParked(ctx, next, r.db)...)
			break
		}
	}
	if config.NeedsTypeNow(old.Config, next.Config) {
		all, err := next.Database(r.log, nil).Check(ctx)
		if err != nil {
			return fmt.Errorf("look whether the tables have the column for the type: %w", err)
		}
		found = append(found, all...)
	}
	for _, f := range found {
		if f.Level == check.Problem {
			return refuse(fmt.Errorf("%s: %s", f.What, f.Fix))
		}
	}
	return nil
}

// exchange opens the new sinks, and hands them to the relay with all else that can change.
func (r *reloader) exchange(ctx context.Context, next *pipeline.Pipeline, dryRun bool) (warnings []string, err error) {
	sinks, err := next.OpenSinks(ctx)
	if err != nil {
		return nil, refuse(errors.New(next.Hide(err.Error())))
	}
	for name, problems := range askSinks(ctx, sinks) {
		for _, problem := range problems {
			warnings = append(warnings, next.Hide("sink "+name+": "+problem.Error()))
		}
	}
	slices.Sort(warnings)
	alerts, err := newAlerting(ctx, next, r.onRefusal, r.log)
	if err != nil {
		return nil, refuse(errors.Join(errors.New(next.Hide(err.Error())), closeAll(ctx, sinks)))
	}
	if !dryRun {
		c := next.Config
		r.tokens.End(&c.Admin)
		err = r.relay.Reload(ctx, relay.Change{Sinks: sinks, Router: c.Router, Hide: next.Hide, Memory: c.Memory, ShutdownTimeout: c.ShutdownTimeout,
			Release: func(ctx context.Context) { r.switchTo(ctx, next, sinks, alerts) }})
		if err == nil {
			for _, w := range warnings {
				r.log.Warn("sink is misconfigured", "problem", w)
			}
			return warnings, nil
		}
		r.tokens.Set(&r.inForce().Config.Admin)
		if !errors.Is(err, relay.ErrStopped) && ctx.Err() == nil {
			err = refuse(err)
		}
	}
	alerts.close(ctx)
	if closeErr := closeAll(ctx, sinks); closeErr != nil {
		r.log.Debug("close the sinks of a configuration that is not in force", "error", closeErr)
	}
	return warnings, err
}

// closeAll closes sinks in bounded time, also after the end of ctx.
func closeAll(ctx context.Context, sinks map[string]sink.Sink) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return pipeline.CloseSinks(closing, sinks)
}

// switchTo closes the sinks from before, and puts all but the relay's part into force. The relay stands still meanwhile.
func (r *reloader) switchTo(ctx context.Context, next *pipeline.Pipeline, sinks map[string]sink.Sink, alerts *alerting) {
	if err := r.closeSinks(ctx); err != nil {
		r.log.Warn("close the sinks of the configuration before", "error", r.hide(err.Error()))
	}
	r.mu.Lock()
	r.running, r.sinks = next, sinks
	r.mu.Unlock()
	r.metrics.Reloaded(labels(next.Config))
	r.level.Set(next.Config.Log.Level)
	r.memory.Store(next.Config.Memory)
	if r.tracer != nil {
		r.tracer.SetSinks(tracedSinks(next))
	}
	r.tokens.Set(&next.Config.Admin)
	r.alerts.change(ctx, alerts)
}

// rereadEvery is how often secrets are read again while a destination refuses those in use, at most.
const rereadEvery = 5 * time.Second

// events adds what the reloader has to know to what the metrics take.
func (r *reloader) events(e relay.Events) relay.Events {
	count := e.Answered
	e.Answered = func(name, class string, n int) {
		count(name, class, n)
		if class == sink.ClassMisconfigured.String() {
			r.onRefusal()
		}
	}
	return e
}

// onRefusal notes that a destination refuses the relay itself. It does not block.
func (r *reloader) onRefusal() {
	select {
	case r.refused <- struct{}{}:
	default: // it is known
	}
}

// onRefusals reads the secrets of the configuration in force again when a destination refuses the relay: they may have been exchanged in their files.
func (r *reloader) onRefusals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.refused:
		}
		r.renewSecrets(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadEvery):
		}
	}
}

func (r *reloader) renewSecrets(ctx context.Context) {
	r.busy.Lock()
	defer r.busy.Unlock()
	next, err := r.inForce().Again()
	switch {
	case err != nil:
		r.log.Warn("a destination refuses the relay, and the secrets cannot be read again", "error", r.hide(err.Error()))
	case next != nil:
		r.log.Info("a destination refuses the relay, and a file holds another secret by now: going on with that")
		// The log has told what came of it.
		_, _ = r.take(ctx, next, false)
	}
}
