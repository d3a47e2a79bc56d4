// Package pgrepl speaks Postgres' logical replication protocol with the output plugin pgoutput: it starts a stream, reads its
// messages, and reports to the server what may be discarded. It knows nothing of outboxes and can be used alone.
//
// A connection comes from pgconn, hijacked while it is idle. DirectConn and a Reader take it over. What fits into the Reader's
// buffer is parsed where it stands, so parsing copies and allocates nothing. Larger messages are read piece by piece (Need, ReadFull,
// Discard), so memory is bounded whatever the size of a row.
package pgrepl
