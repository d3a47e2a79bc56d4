package main

import (
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/internal/trace"
	"github.com/tailbox/tailbox/relay"
)

// readTracing reads OpenTelemetry's environment; nil means that tracing is off.
func readTracing(sh *cli.Shell) (*trace.Settings, error) {
	version, _ := buildVersion()
	s, err := trace.Read(sh.Env, version)
	if err != nil {
		return nil, cli.WrongUsage("tracing: %w", err)
	}
	return s, nil
}

// newTracer makes what traces deliveries; nil without settings.
func newTracer(s *trace.Settings, p *pipeline.Pipeline, metrics *admin.Metrics, log *slog.Logger) *trace.Tracer {
	if s == nil {
		return nil
	}
	log.Info("tracing deliveries", "endpoint", s.Endpoint())
	version, _ := buildVersion()
	return trace.New(s, trace.Config{Pipeline: p.Config.Pipeline, Version: version, Count: metrics.Spans, Logger: log}, tracedSinks(p))
}

// tracedSinks are the sinks of a configuration as spans describe them.
func tracedSinks(p *pipeline.Pipeline) map[string]trace.Sink {
	sinks := map[string]trace.Sink{}
	for _, s := range p.Config.Sinks {
		host, port := p.Server(s.Name)
		sinks[s.Name] = trace.Sink{Kind: s.Kind, Address: host, Port: port}
	}
	return sinks
}

// onAnswers returns what is told about each call: it shows deliveries to those who watch, and makes spans if tracer is not nil.
func onAnswers(watched *tail.Hub, tracer *trace.Tracer) func(relay.Answers) {
	show := func(a relay.Answers) { watched.Answered(a.Sink, a.Deliveries, a.Errs, time.Now()) }
	if tracer == nil {
		return show
	}
	return func(a relay.Answers) {
		show(a)
		tracer.Answered(a)
	}
}
