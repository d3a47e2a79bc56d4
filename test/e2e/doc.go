// Package e2e kills, cuts, stalls and restarts every part around the tailbox binary, and compares what the sinks got with
// what was committed.
//
// A test makes a [Bed] (a server of one of the [Kinds] or a database on a shared one, two outbox tables, a configuration file),
// starts [Load] on it (writers whose transactions commit out of the order of their ids), and runs the binary as a [Relay]. Each
// sink's deliveries go into a [Ledger], through whoever plays the destination: [Lines] reads the relay's standard output,
// [Endpoint] is an HTTP server that refuses, hangs, and refuses what it kept, [Topic] reads a real Kafka topic. [Truth]
// reads the commit order from the server's log: a logical slot of its own, the binlog as another replica, or the oplog, with
// decoders that share nothing with the relay's. [Ledger.Check] holds both against each other:
//
//   - lost: a committed message that never came
//   - overtaken: a message whose first delivery came before that of an earlier one of its group
//   - repeated: a delivery of a message that was durably settled before, or more deliveries than kills and hidden answers
//     (the sink kept it and said otherwise) allow
//   - unstable: a message's position changed, or positions disagree with the commit order
//   - changed: a payload or a group that is not what the application wrote
//   - invented: a message that was never committed
//
// Plain go test runs a quick variant of TestKillStdout and TestKillHTTP, and proves the oracle itself (TestLedgerSeesBreaches).
// The long tests have the build tag e2e, for "make e2e"; figures of time and memory are asserted there only. What is where:
//
//	kill_*_test.go     kill -9 of the relay under load, for each kind of source and sink, and of the database server
//	stop_test.go       soft stops of the relay at whatever it is doing
//	visibility_test.go commits that become visible late, asynchronous commits, rows removed by the application
//	gap_test.go        a slot that is lost
//	lost_*_test.go     a position in the binlog or oplog that is lost: purged, reset, rolled over, restored from a backup
//	failover_test.go   a primary that its standby replaces, and that comes back by pg_rewind
//	restore_test.go    Postgres restored from a snapshot or to a point in time; a standby that Postgres waits for
//	upgrade_test.go    Postgres upgraded by pg_upgrade
//	outage_test.go     one of two sinks away, or refusing everything with 401
//	outages_test.go    a destination that fails for every message, in every way
//	poison_test.go     a message that its sink never takes
//	poisons_test.go    messages to which alone an endpoint answers with what looks like an outage
//	takeover_test.go   two relays, one killed or frozen
//	reset_test.go      rows set back to pending by hand
//	soak_test.go       everything at once, for long
//
// Environment:
//
//	TAILBOX_E2E_TRIALS    kills in each kill test (4 quick, 50 with the tag; Postgres 10 and 100)
//	TAILBOX_E2E_SEED      seed of everything random in load and faults; each test prints its own
//	TAILBOX_E2E_POSTGRES  major version of Postgres (default 17)
//	TAILBOX_E2E_SOAK      how long the soak runs (default 2m)
//	TAILBOX_E2E_OUTAGE    how long outages last (default 1m; 2m where one of two sinks is away)
//	TAILBOX_E2E_BINARY    a tailbox binary to test in the place of one built from this tree
//	TAILBOX_E2E_KEEP      a directory that keeps configuration and logs of the relays
package e2e
