// Package router decides where a message goes and what it looks like there: Debezium's outbox event router options make
// topic, key, value and headers; routes choose the sinks by type, topic, table, group, tenant or header. It is pure, and
// immutable after New.
package router

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// ErrNoRoute is matched by the error of Route when no route takes the message.
var ErrNoRoute = errors.New("no route matches")

// A Router is made by New.
type Router struct {
	routes  []*Route
	sinks   []string
	shapers []tableShaper
	// all shapes messages of every table, where none is configured.
	all *tableShaper
	// others is the policy of deliveries to a sink that no route names any more.
	others Route
}

// Route fills d with what m looks like at its sinks, and returns the route that names them. The delivery's Attempt,
// Source and Destination are left alone. An error means that the message cannot be routed as it is: it is parked,
// with the error as the reason. Route may be called by several goroutines.
func (r *Router) Route(m *outbox.Message, d *sink.Delivery) (*Route, error) {
	t, err := r.shape(m, d)
	if err != nil {
		return nil, err
	}
	if route := t.first(m); route != nil {
		return route, nil
	}
	return nil, fmt.Errorf("%w: message of type %q, topic %q, table %s: add a route that matches it, or a last one without match",
		ErrNoRoute, outbox.Shorten(m.Type), outbox.Shorten(m.Topic), m.Table)
}

// ForSink does the same for a delivery that was parked at a sink, whose routes may have changed since: the route is the one
// that Route finds if it still names the sink, else the first that names the sink, else one with the default policy.
// ErrNoRoute is never returned.
func (r *Router) ForSink(m *outbox.Message, sinkName string, d *sink.Delivery) (*Route, error) {
	t, err := r.shape(m, d)
	if err != nil {
		return nil, err
	}
	if route := t.first(m); route != nil && slices.Contains(route.To, sinkName) {
		return route, nil
	}
	for _, route := range t.routes {
		if slices.Contains(route.To, sinkName) {
			return route, nil
		}
	}
	other := r.others
	other.Name, other.To = sinkName, []string{sinkName}
	return &other, nil
}

// Knows reports whether messages of a table, by their Table, can be routed: of those that the configuration does not have, none can.
func (r *Router) Knows(table string) bool { return r.find(table) != nil }

// Routes lists all routes in their order. The list and what it points to must not be changed.
func (r *Router) Routes() []*Route { return r.routes }

// Sinks lists the names of all sinks that the configuration has, whether a route names them or not. The list must not be
// changed.
func (r *Router) Sinks() []string { return r.sinks }

func (t *tableShaper) first(m *outbox.Message) *Route {
	for _, route := range t.routes {
		if route.match == nil || route.match(m) {
			return route
		}
	}
	return nil
}

func (r *Router) shape(m *outbox.Message, d *sink.Delivery) (*tableShaper, error) {
	t := r.find(m.Table)
	if t == nil {
		return nil, fmt.Errorf("route message: table %s is not in the configuration: add it to source.tables", m.Table)
	}
	return t, t.shape(m, d)
}
