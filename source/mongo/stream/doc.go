// Package stream reads the outbox collections. A Source follows one change stream, whose events it decodes in the order of their commits.
// If a position is new, it takes a snapshot first, and sweeps the documents that are pending in it.
package stream
