package router

import "github.com/tailbox/tailbox/outbox"

// A matcher decides whether a route applies to a message; nil matches everything.
type matcher func(*outbox.Message) bool
