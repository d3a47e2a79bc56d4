package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/discard"
)

// parts is a configuration on its way to a relay.
type parts struct {
	config *config.Config
	// makers make the sinks, in the order of config.Sinks; nil where the sink's keys are wrong.
	makers []maker
	// feedback, if not nil, counts statements of feedback.
	feedback func(table, outcome string, n int, why error)
	// hide takes the file's secrets out of a text.
	hide func(text string) string
}

// A maker makes a sink whose keys were read.
type maker func() (sink.Sink, error)

// kinds lists the kinds of sinks that are built in.
func kinds() []string {
	return []string{"discard", "file", "http", "kafka", "nats", "slack", "smtp", "stdout"}
}

// readSinks reads the keys of all sinks, each by its kind. out is where stdout writes.
func (p *parts) readSinks(out io.Writer) {
	for i := range p.config.Sinks {
		s := &p.config.Sinks[i]
		var m maker
		switch s.Kind {
		case "discard":
			s.Section.Done()
			m = func() (sink.Sink, error) { return discard.New(discard.Config{}) }
		case "file":
			m = readFile(s)
		case "http":
			m = readHTTP(s)
		case "kafka":
			m = readKafka(s)
		case "nats":
			m = readNATS(s)
		case "slack":
			m = readSlack(s)
		case "smtp":
			m = readSMTP(s)
		case "stdout":
			m = readStdout(s, out)
		default:
			s.UnknownKind(kinds())
		}
		p.makers = append(p.makers, m)
	}
}

// openSinks makes all sinks. The caller closes them with closeSinks.
func (p *parts) openSinks(ctx context.Context) (map[string]sink.Sink, error) {
	sinks := make(map[string]sink.Sink, len(p.makers))
	for i, m := range p.makers {
		name := p.config.Sinks[i].Name
		s, err := m()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open sink %s: %w", name, err), closeSinks(ctx, sinks))
		}
		sinks[name] = s
	}
	return sinks, nil
}

func closeSinks(ctx context.Context, sinks map[string]sink.Sink) error {
	var errs []error
	for name, s := range sinks {
		if err := s.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close sink %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
