// Package propose guesses how tailbox would read an outbox table that somebody else made, from the names and types of its columns and from what its rows
// hold. It says why it chose each column. What it cannot tell it asks: the proposal has a question beside each choice that may be wrong, and ??? in a place where
// tailbox refuses to start if a wrong choice could deliver or change the wrong thing. It is pure: it opens no connection and has no clock.
package propose
