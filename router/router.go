// Package router decides where a message goes and what it looks like there: Debezium's outbox event router options make
// topic, key, value and headers; routes choose the sinks by type, topic, table, group, tenant or header. It is pure, and
// immutable after New.
package router

import (
	"errors"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// ErrNoRoute is matched by the error of Route when no route takes the message.
var ErrNoRoute = errors.New("no route matches")

// A Router is made by New.
type Router struct {
	routes []*Route
}

// Route fills d with what m looks like at its sinks, and returns the route that names them. The delivery's Attempt,
// Source and Destination are left alone. An error means that the message cannot be routed as it is: it is parked,
// with the error as the reason. Route may be called by several goroutines.
func (r *Router) Route(m *outbox.Message, d *sink.Delivery) (*Route, error) {
	return nil, ErrNoRoute
}
