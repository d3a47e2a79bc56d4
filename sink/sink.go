// Package sink says what it means to deliver a message. Each kind of sink has a package of its own below this one;
// sinktest holds the kit that all of them pass.
package sink

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// A Delivery is one message on its way to one sink. It is read-only for the sink, and must not be kept after Deliver
// returned.
type Delivery struct {
	Message *outbox.Message
	// Topic, Key and Value are what the router made of the message. A nil Value is a tombstone.
	Topic string
	Key   []byte
	Value []byte
	// ID is what the header id carries where the router writes it in another form; nil = the message's ID.
	ID []byte
	// Headers are the router's placements. AppendHeaders makes the whole list that goes over the wire.
	Headers []outbox.Header
	// Partition is the router's placement; nil leaves the choice to the sink.
	Partition *int32
	// Timestamp is the message's own time where the router places one; zero otherwise.
	Timestamp time.Time
	// Source is the name of the pipeline, carried as tailbox-source.
	Source string
	// Attempt counts from 1.
	Attempt int
	// Destination is what the sink's Destinations named for this delivery; the zero value for sinks without.
	Destination Destination
	// Receipt is nil unless what the destination answers is to be kept: then a sink that can tell sets it, before Deliver
	// returns, for each delivery that it answers with nil. It is all that a sink may change of a delivery.
	Receipt *Receipt
}

// A Sink delivers messages to one place. Deliver may be called by several goroutines at once, within Limits.
type Sink interface {
	// Deliver tries to deliver ds, in order within each lane (a lane's deliveries stand next to each other), and returns
	// one answer a delivery: nil only when the message is durable at the destination, else an error made by this
	// package's constructors; any other error counts as rejected. Within a lane the answers are nils, then errors. A nil
	// slice means that all were delivered. Deliver never retries across deliveries of a lane: the relay owns retries and
	// order. When ctx ends it returns soon, with an honest answer for each.
	Deliver(ctx context.Context, ds []*Delivery) []error
	// Limits says how Deliver wants to be called. It does not change while the relay runs.
	Limits() Limits
	// Close frees what the sink holds. No Deliver follows; one that has ignored the end of its context may still be running.
	Close(ctx context.Context) error
}

// Limits of the calls to Deliver. The zero value of a field means no limit, but for Run and Concurrency, where it
// means 1.
type Limits struct {
	// Batch is the most deliveries in a call, Bytes the most bytes of values in a call (one delivery may exceed it).
	Batch int
	Bytes int
	// Concurrency is the most calls in flight at once, PerDestination the most to one Destination.
	Concurrency    int
	PerDestination int
	// Run is the most deliveries of one lane in a call. Above 1 only if the sink can promise that a lane's deliveries
	// are accepted as a prefix.
	Run int
	// Topic says which topics the sink can carry; nil: those of at most MaxTopic bytes.
	Topic TopicRule
}

// A Destination is where a sink keeps order: all deliveries in a call go to one.
type Destination struct {
	// Name is what can be misconfigured and paused by itself: a topic, a URL, a subject.
	Name string
	// Partition is a part of it that is written in order; 0 if there is none.
	Partition int32
	// Shared: several names share it, so that a delivery to one of them does not show that another one works.
	Shared bool
}

// Destinations is implemented by sinks with more than one destination.
type Destinations interface {
	// Destination names where d will go. It is called by one goroutine, at each attempt anew, and must not block: a
	// sink that does not know yet says Partition -1, finds out in Deliver, and answers NotAttempted. It is asked only for topics that
	// Limits.CheckTopic allows.
	Destination(d *Delivery) Destination
}

// A Checker is a sink that can tell before the first message what is wrong with its configuration or its server.
type Checker interface {
	// Check returns all problems it finds, each with its fix. It delivers nothing, keeps what connections it made for Deliver
	// where it can, and may run beside Deliver.
	Check(ctx context.Context) []error
}
