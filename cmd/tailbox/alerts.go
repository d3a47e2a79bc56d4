package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/internal/alert/notify"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/report"
)

// alertEvery is how often the facts are looked at. The database is not asked for that.
const alertEvery = time.Second

// alerts watches a relay from beside, and sends what is wrong.
type alerts struct {
	facts *admin.Metrics
	// changes brings what another configuration says.
	changes chan *alerting

	mu     sync.Mutex
	status *report.Status // the last; nil if the database did not answer
}

func newAlerts(facts *admin.Metrics) *alerts {
	return &alerts{facts: facts, changes: make(chan *alerting, 1)}
}

// An alerting is what one configuration says of alerts.
type alerting struct {
	config alert.Config
	sender *notify.Sender
	sinks  map[string]sink.Sink // those of the sender
}

// newAlerting opens the sinks that alerts are sent through. Without alerts in the configuration nothing is watched. refused is called if a destination
// refuses tailbox itself.
func newAlerting(ctx context.Context, p *pipeline.Pipeline, refused func(), log *slog.Logger) (*alerting, error) {
	c := &p.Config.Alerts
	to, sinks, err := p.OpenAlerts(ctx)
	if err != nil {
		return nil, err
	}
	x := &alerting{config: alert.Config{Sinks: p.Config.Router.Sinks(), Limits: c.Limits, Repeat: c.Repeat, Steady: c.Steady},
		sender: notify.New(notify.Config{Place: p.Place(), To: to, Refused: refused, Hide: p.Hide, Logger: log}), sinks: sinks}
	if x.off() {
		for i := range x.config.Limits {
			x.config.Limits[i].Off = true
		}
	}
	return x, nil
}

// off: nothing can be sent.
func (x *alerting) off() bool { return len(x.sinks) == 0 }

func (x *alerting) close(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = pipeline.CloseSinks(closing, x.sinks) // what was sent is sent
}

// know takes over what the database said; nil if it did not answer.
func (a *alerts) know(r *report.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = r
}

// change goes on with another configuration. It does not block.
func (a *alerts) change(ctx context.Context, next *alerting) {
	for {
		select {
		case a.changes <- next:
			return
		default:
		}
		select {
		case unused := <-a.changes:
			unused.close(ctx)
		default:
		}
	}
}

// run looks at the facts until ctx ends, which is after the relay has ended, and sends a last message about each alert that operators know.
func (a *alerts) run(ctx context.Context, x *alerting) {
	watch := alert.NewWatch(x.config)
	for x != nil {
		next := a.runWith(ctx, watch, x)
		if next != nil {
			next.sender.TakeOver(x.sender) // it may be why the configuration was changed
		}
		x = next
	}
}

// runWith goes on until ctx ends, or another configuration is to be gone on with, which it returns.
func (a *alerts) runWith(ctx context.Context, watch *alert.Watch, x *alerting) (next *alerting) {
	sends, end := context.WithCancel(context.WithoutCancel(ctx))
	var sending sync.WaitGroup
	sending.Go(func() { x.sender.Run(sends) })
	defer func() {
		end()
		sending.Wait()
		x.close(ctx)
	}()
	tick := time.NewTicker(alertEvery)
	defer tick.Stop()
	if x.off() {
		tick.Stop() // a relay at rest is not woken for nothing
	}
	for {
		select {
		case <-ctx.Done():
			x.send(watch.Look(time.Now(), &alert.Facts{Role: alert.Ending}))
			return nil
		case next = <-a.changes:
			x.send(watch.Change(time.Now(), next.config))
			return next
		case now := <-tick.C:
			x.send(watch.Look(now, a.gather(x.config.Sinks)))
		}
	}
}

func (x *alerting) send(ms []alert.Message) {
	if len(ms) > 0 {
		x.sender.Send(ms)
	}
}

// gather returns the facts of this moment.
func (a *alerts) gather(sinks []string) *alert.Facts {
	p := a.facts.Process()
	f := &alert.Facts{Role: roleOf(&p), State: p.State, Failing: map[string]bool{}, Undelivered: p.Undelivered, Lag: p.Lag, Restarts: p.Restarts, Causes: p.Dead}
	for _, name := range sinks {
		f.Failing[name] = a.facts.SinkState(name) == "failing"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f.Status = a.status
	return f
}

// roleOf says what a process does for its pipeline.
func roleOf(p *admin.Process) alert.Role {
	switch {
	case p.Reading:
		return alert.Leading
	case p.StandingBy:
		return alert.StandingBy
	case p.Stopped:
		return alert.Ending
	}
	return alert.Idle
}

// testAlerts sends a test through each sink that alerts are sent through.
func testAlerts(ctx context.Context, p *pipeline.Pipeline) (found []check.Finding, err error) {
	to, sinks, err := p.OpenAlerts(ctx)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return []check.Finding{{Level: check.Problem, What: "there is no alert to test: alerts.to is missing", Fix: "list the sinks that alerts are sent through"}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, one := range to {
		if err := notify.Test(ctx, one, p.Place(), time.Now()); err != nil {
			found = append(found, check.Finding{Level: check.Problem, What: "test of alerts: " + p.Hide(err.Error())})
		} else {
			found = append(found, check.Finding{Level: check.Info, What: "a test of alerts was sent through sink " + one.Name + ": see whether it arrived"})
		}
	}
	return found, pipeline.CloseSinks(context.WithoutCancel(ctx), sinks)
}
