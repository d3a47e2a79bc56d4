// Package lane holds what the engine of package relay knows of deliveries in memory, and the rules that need nothing else: lanes, the sinks and
// destinations that they lead to, and messages.
//
// A Lane is the ordered queue of one sink and message group. state.go has its states, and the table of events that change them; flow.go has
// those of a Sink. Breaker and Throttle decide when a destination that fails, or asks to slow down, is tried again. The rule of the witness
// (witness.go) decides whether a failure counts against the message.
//
// Everything here is pure: it has no goroutine, no clock and no I/O. All of it is owned by the engine's goroutine.
package lane
