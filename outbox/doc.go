// Package outbox is the contract between applications and the relay: what a message is, where it stands in the log,
// and how the table is laid out that applications write to in the transaction of their business change.
//
// The package imports nothing but the standard library, so that an application can depend on it without depending on
// the relay.
package outbox
