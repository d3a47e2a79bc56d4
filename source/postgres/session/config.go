// Package session opens connections to Postgres, each set up so that neither the role's search path nor its settings nor a pooler change what a
// statement means. Its Config is the configuration that all packages of the source share.
package session

import "github.com/tailbox/tailbox/source"

// Config is what a pipeline knows of its database. URLs are connection URIs or libpq keywords. A table without a schema is found by the search path,
// of which the first schema holds the tables tailbox_*.
type Config struct {
	source.Config
	// Slot and Publication, unquoted. They are not used to poll.
	Slot        string
	Publication string
	// Failover makes the slot one that is synchronised to standbys (17 and later; ignored before).
	Failover bool
	// TakeOver: if the pipeline has no position, it goes on from where its slot stands. Somebody else made the slot and left it.
	TakeOver bool
	// Messages is the prefix of messages that applications write by pg_logical_emit_message, into no table; "" = none.
	Messages string
}
