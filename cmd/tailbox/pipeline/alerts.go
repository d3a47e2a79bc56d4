package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tailbox/tailbox/internal/alert"
	"github.com/tailbox/tailbox/internal/alert/notify"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/slack"
	"github.com/tailbox/tailbox/sink/smtp"
)

// specOf returns the position of a sink, and what was read of it; nil if its kind is unknown.
func (p *Pipeline) specOf(name string) (at int, spec sink.Spec) {
	at = slices.IndexFunc(p.Config.Sinks, func(s config.Sink) bool { return s.Name == name })
	if at < 0 {
		return at, nil
	}
	return at, p.specs[at]
}

// checkAlerts reports sinks that take from a message where it goes: an alert is no row, and has neither recipient nor channel.
func (p *Pipeline) checkAlerts(file *config.File) {
	for i, name := range p.Config.Alerts.To {
		_, spec := p.specOf(name)
		reason := ""
		switch c := spec.(type) {
		case slack.Config:
			if _, fixed := c.Channel.IsText(); c.Token != "" && !fixed {
				reason = "has no channel of its own: give alerts a sink with a fixed one, such as channel: C0123, or with webhook_url"
			}
		case smtp.Config:
			if _, fixed := c.To.IsText(); !fixed {
				reason = "has no recipient of its own: give alerts a sink with a fixed one, such as to: ops@example.org"
			}
		}
		if reason != "" {
			file.Add([]string{"alerts", "to", strconv.Itoa(i)}, name, reason)
		}
	}
}

// OpenAlerts makes the sinks that alerts are sent through, each anew, so that alerts neither wait for deliveries nor hold them up. The caller closes them
// with CloseSinks.
func (p *Pipeline) OpenAlerts(ctx context.Context) (to []notify.Recipient, sinks map[string]sink.Sink, err error) {
	sinks = map[string]sink.Sink{}
	for _, name := range p.Config.Alerts.To {
		at, spec := p.specOf(name)
		s, err := spec.Open()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open sink %s for alerts: %w", name, err), CloseSinks(ctx, sinks))
		}
		sinks[name] = s
		to = append(to, notify.Recipient{Name: name, Kind: p.Config.Sinks[at].Kind, Sink: s})
	}
	return to, sinks, nil
}

// Place is the pipeline as alerts name it.
func (p *Pipeline) Place() alert.Place {
	place := alert.Place{Pipeline: p.Config.Pipeline}
	if p.Config.Admin.HasAPI() {
		place.Console = p.Config.Admin.URL
	}
	return place
}
