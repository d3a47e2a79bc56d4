// Package sim runs a relay against a simulated world and checks every step of it.
//
// The world is a database server (its log, the rows of the outbox tables, the relay's own tables, a slot), sinks, an
// application that writes, an operator who asks for things, and everything that can go wrong: transactions become visible
// late, sessions die, answers get lost, the server forgets what was confirmed, the slot is lost, the relay is killed.
// Source, Store and Sink are the real contracts; only what is behind them is a model.
//
// One seed decides everything. The world runs inside a testing/synctest bubble; each call of a contract waits once before
// its effect and once after it, and one scheduler decides which call goes on, what happens in the world, or how long
// nothing happens. All effects are carried out by the scheduler, one at a time, so that the model needs no locks and
// an oracle can look at the world after each of them.
//
// The oracle knows the invariants by these names (docs/design/rules.md):
//
//	I1 no phantom mark      a row is deleted or marked only after its last delivery is settled
//	I2 checkpoint safety    what lies at or before a durable checkpoint is settled in the database
//	I3 slot safety          the server is told at most the durable checkpoint
//	I4 group order          first deliveries per sink and group are in commit order, with growing positions
//	I5 block                a lane with a blocking delivery in the database gets nothing from the tail
//	I6 progress             when faults end, everything ends settled
//	I7 duplicates           what is settled in the database, or was answered in this run, is not sent again
//	I8 fence                writes come from the session that holds the lock; no call starts 5 s after its last answer
//	state                   no lane of the engine takes a step that its table of transitions does not have
//
// and the contracts' own rules (R2 runs, R6 bare progress, R13 verbs, positions that never change or go back) by theirs.
// A broken invariant is printed with its seed; `go test ./test/sim -run TestSim -sim.seed=N -v` runs that schedule alone and
// prints all that happens in it. TAILBOX_SIM_SCHEDULES or -sim.n says how many schedules are run, -sim.first with which seed
// they begin, -sim.all goes on after the first broken one. The naive relay of the tests shows that a right relay passes,
// and its flaws that the oracle sees; so does test/mutants with the engine.
//
// What is not modelled: memory pressure beyond small bounds, and the servers themselves (see the conformance kits
// and test/e2e).
package sim
