// Package hostile lets the tailbox binary deliver rows that an application should not have written: texts at and above their bounds, hostile headers,
// characters and payloads, and many types, topics and groups.
//
// [Rows] makes the rows of one round from a seed. A test writes them to a real table, a few good rows among them, and wants after each round:
//
//   - the relay lives, and stops softly within shutdown_timeout
//   - its memory stays below what it bounds its heap by (twice `memory`, and 4 MiB) and 64 MiB; MongoDB has 32 MiB more
//   - its log grows by less than 1 KiB a row
//   - every good row is delivered within 10 s of the round
//   - every hostile row is delivered, or is a dead letter whose reason names the column; or its topic does not exist, which is no message's fault,
//     and it is delivered when somebody has made the topic
//   - all of that again when the relay was killed amid the round
//
// What the database refuses (a NUL in a text, say) was not written.
//
// Servers that lie are the other half: in the place of each kind of destination, one that is slow, endless, huge, speaks another protocol, falls silent amid an
// answer, or refuses everything. When the good server is back, everything arrives, and nothing has died but what the server refused while it took others.
//
// Plain go test runs a quick variant; with the build tag e2e, as "make e2e" has it, each database writes 20,000 hostile rows for each kind of sink, and every lie
// is told.
//
// Environment:
//
//	TAILBOX_HOSTILE_SEED  seed of the rows; each test prints its own
package hostile
