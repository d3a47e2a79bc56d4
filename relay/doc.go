// Package relay is the engine: it takes messages from a source, routes them into lanes, delivers them to sinks, settles the
// outcomes in the store, and confirms to the source what is durable.
//
// # The road of a message
//
// source.Run emits a batch, which is routed and waits for memory in the source's goroutine (intake.go). Each message gets a number in the
// tracker, and a delivery in one lane per sink (receive.go). Lanes that are ready form calls of sink.Deliver (dispatch.go). Their answers
// (answer.go) become outcomes, retries in memory, or parked deliveries (park.go). A settlement makes outcomes and checkpoint durable in one
// transaction (settle.go); then source.Confirm tells the server. The order deliver < settle and save < confirm never changes: a crash between
// any two loses nothing.
//
// The second road: the poller loads what is parked when it is due (poll.go), first the head alone, then the rest of its lane in pages. The lane
// reopens when the database shows nothing that blocks it. Requests of operators (request.go), pending rows that the log does not hold
// (upkeep.go), and starts after crashes (safemode.go) use the same roads.
//
// # Who owns what
//
// One goroutine, engine.loop, owns all state, and never blocks on the network. Each part of the engine is a type: dispatcher, parker, settler,
// poller, requests, reconciler, cleaner, safeMode, fairness. These reach each other through the engine, because one goroutine runs all of them.
// What other goroutines use is apart:
//
//   - the source's goroutine has intake, of which only channels and the memory budget change;
//   - the goroutine of a call to a sink has the call, until it puts it into dispatcher.answers;
//   - the goroutine of an operation of the store has what the operation was given, such as a settlement, until it puts the rest of its work
//     into session.stored. There is at most one: all relay state is written on the one session that holds the lock (R12).
//
// Package lane has the lanes, sinks and destinations with their states. A state changes by an event, if the table of transitions allows it
// there. An event that it does not allow is a bug: it ends the term.
//
// A term is one time as the holder of the lock. Any error of the store or the source ends it: all memory is forgotten and
// the next term starts from what the database says (R9). There is no other recovery path.
//
// # Stopping
//
// In this order: nothing new is read or sent (the source stays connected and keeps answering the server) -> runs in
// flight end, at most ShutdownTimeout, then they are cut off -> outcomes are settled, the checkpoint is saved and confirmed ->
// the source is stopped, whose last status carries the confirmation -> the store's session is closed, which releases the lock.
//
// # Reloading
//
// Relay.Reload exchanges sinks, router and memory. It is a soft stop and a start, with two differences: the store's session stays open, so the lock is
// held throughout, and the start takes the new configuration, unless deliveries are parked for a sink that it lacks (lifecycle.go). All state in memory
// belongs to the old configuration and is forgotten, as after any other end of a term.
//
// # What is guaranteed
//
// At-least-once; first deliveries in commit order per message group; a stable message id and position on every delivery;
// duplicates are possible after a crash, a takeover or a lost answer, are bounded, and carry a position by which a consumer can
// drop them; never lost, never silently skipped. docs/design/rules.md explains the rules R1 to R15 that comments cite. The invariants
// behind the guarantee, proven by test/sim under random schedules:
//
//	I1  a row is marked or deleted only after every sink of its message had it, or its delivery is parked
//	I2  everything at or before a durable checkpoint is settled in the database
//	I3  the server is told at most the last durable checkpoint
//	I4  the first delivery of a message comes after the first delivery, or death, of every earlier one of its group
//	I5  a lane with parked deliveries that block it gets nothing from the tail
//	I6  from every state there is a way to "all settled"
//	I7  duplicates of a crash are at most what was not durably settled and one run a lane
//	I8  relay state is written only on the session that holds the lock
package relay
