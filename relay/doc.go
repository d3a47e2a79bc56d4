// Package relay is the engine: it takes messages from a source, routes them into lanes, delivers them to sinks, settles the
// outcomes in the store, and confirms to the source what is durable.
//
// # The road of a message
//
// source.Run emits a batch (receive.go: it is routed and waits for memory in the source's goroutine) -> each message
// gets a number in the tracker and a delivery in one lane per sink -> lanes that are ready form calls (dispatch.go) ->
// sink.Deliver -> the answers (answer.go) become outcomes, retries in memory, or parked deliveries (park.go) -> a
// settlement makes outcomes and checkpoint durable in one transaction (settle.go) -> source.Confirm. The order deliver <
// settle and save < confirm never changes: a crash between any two loses nothing.
//
// The second road: what is parked is brought back when it is due (poll.go), its head alone, then the rest of its lane in
// pages; the lane reopens when the database shows nothing that blocks it. What operators ask for (request.go), what the
// table says is pending though the log does not (reconcile.go), and starts after crashes (cautious.go) use the same roads.
//
// # Who owns what
//
// One goroutine, engine.loop, owns all state: lanes, tracker, sinks, everything in engine. It never blocks on the
// network. Beside it run the source's goroutine, one goroutine for each call to a sink, and at most one for an
// operation of the store: all relay state is written on the one session that holds the lock (R12). lane.go,
// breaker.go, backoff.go and the tracker have no goroutine, no clock and no I/O.
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
// # What is guaranteed
//
// At-least-once; first deliveries in commit order per message group; a stable message id and position on every delivery;
// duplicates are possible after a crash, a takeover or a lost answer, are bounded, and carry a position by which a consumer can
// drop them; never lost, never silently skipped. The invariants behind it, proven by test/sim under random schedules:
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
