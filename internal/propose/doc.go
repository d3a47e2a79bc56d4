// Package propose guesses how tailbox would read an outbox table that somebody else made, from the names and types of its columns and from what its rows
// hold. It says why it chose each column. What it cannot tell it asks: then the proposal has ??? in a place where tailbox refuses to start, or a
// question beside a choice that does no harm. It is pure: it opens no connection and has no clock.
package propose
