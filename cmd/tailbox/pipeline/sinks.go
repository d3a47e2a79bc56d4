package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Pipeline is a configuration on its way to a relay.
type Pipeline struct {
	Config *config.Config
	// CreateTables is for Init: it makes outbox tables even if they look as if they were there under another name.
	CreateTables bool
	// file is what the pipeline was read from, and out where the kind stdout writes.
	file *config.File
	out  io.Writer
	// specs are the sinks in the order of config.Sinks; nil if the kind is unknown.
	specs []sink.Spec
	// Feedback, if not nil, counts statements of feedback.
	Feedback func(table, outcome string, n int, why error)
	// Hide takes the file's secrets out of a text.
	Hide func(text string) string
	// Effective is the configuration as YAML, with defaults filled in and secrets masked.
	Effective string
}

// readSinks reads the keys of all sinks, each by its kind. out is where stdout writes.
func (p *Pipeline) readSinks(out io.Writer) {
	table := kinds(out)
	exclusive := map[string]string{} // things that only one sink may have, and which sink has each
	for i := range p.Config.Sinks {
		s := &p.Config.Sinks[i]
		known := slices.IndexFunc(table, func(k kind) bool { return k.name == s.Kind && k.read != nil })
		if known < 0 {
			s.UnknownKind(kindNames())
			p.specs = append(p.specs, nil)
			continue
		}
		spec := table[known].read(s.Section)
		validate(s, spec)
		share(s, spec, exclusive)
		p.specs = append(p.specs, spec)
	}
}

// validate reports unknown keys, and what a kind finds wrong with its own configuration, at the keys that the errors begin with.
func validate(s *config.Sink, spec sink.Spec) {
	s.Section.Done()
	err := spec.Validate()
	if err == nil {
		return
	}
	unread := s.Section.Problems()
	for _, one := range flatten(err) {
		key, reason, ok := strings.Cut(one.Error(), ": ")
		if !ok || strings.ContainsAny(key, " \"") {
			key, reason = "kind", one.Error()
		}
		if steps := strings.Split(key, "."); !unread(steps...) {
			s.Section.AddAt(steps, reason)
		}
	}
}

// share reports a sink that needs for itself what another sink has.
func share(s *config.Sink, spec sink.Spec, taken map[string]string) {
	own, ok := spec.(sink.Exclusive)
	if !ok {
		return
	}
	key, value, thing := own.Exclusive()
	if thing == "" {
		return
	}
	thing = s.Kind + " " + thing
	if other, there := taken[thing]; there {
		s.Section.Add(key, value, "is the "+s.Kind+" of sink "+other+" already: give each its own, or route to one of the two")
		return
	}
	taken[thing] = s.Name
}

// flatten lists the errors that were joined into one.
func flatten(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range many.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}

// Kind returns the kind of a sink; "" if there is no such sink.
func (p *Pipeline) Kind(name string) string {
	for i := range p.Config.Sinks {
		if p.Config.Sinks[i].Name == name {
			return p.Config.Sinks[i].Kind
		}
	}
	return ""
}

// Table returns the outbox table that a name means, with or without its schema; "" is the first.
func (p *Pipeline) Table(named string) (*outbox.Table, error) {
	var names []string
	for i := range p.Config.Source.Tables {
		t := &p.Config.Source.Tables[i]
		name := strings.TrimPrefix(t.String(), ".")
		schema, own, err := config.SplitTable(named)
		if named == "" || named == name || named == t.Name || err == nil && own == t.Name && (schema == "" || schema == t.Schema) {
			return t, nil
		}
		names = append(names, name)
	}
	return nil, fmt.Errorf("there is no table %q: the configuration has %s", named, strings.Join(names, ", "))
}

// Send writes a message into a table as an application does, and returns its id.
func (p *Pipeline) Send(ctx context.Context, db operate.Database, t *outbox.Table, d outbox.Draft) (id string, err error) {
	if _, err := t.Values(&d); err != nil { // before the database is asked
		return "", err
	}
	return db.Send(ctx, t, d, outbox.Options{MaxMessage: int(p.Config.MaxMessage)})
}

// Server returns the one server that a sink talks to; "" and 0 if there is none.
func (p *Pipeline) Server(name string) (host string, port int) {
	i := slices.IndexFunc(p.Config.Sinks, func(s config.Sink) bool { return s.Name == name })
	if i < 0 {
		return "", 0
	}
	if served, ok := p.specs[i].(sink.Served); ok {
		return served.Server()
	}
	return "", 0
}

// OpenSinks makes all sinks. The caller closes them with CloseSinks.
func (p *Pipeline) OpenSinks(ctx context.Context) (map[string]sink.Sink, error) {
	sinks := make(map[string]sink.Sink, len(p.specs))
	for i, spec := range p.specs {
		name := p.Config.Sinks[i].Name
		s, err := spec.Open()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open sink %s: %w", name, err), CloseSinks(ctx, sinks))
		}
		sinks[name] = s
	}
	return sinks, nil
}

// CloseSinks closes all sinks, and returns all errors.
func CloseSinks(ctx context.Context, sinks map[string]sink.Sink) error {
	var errs []error
	for name, s := range sinks {
		if err := s.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close sink %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
