// Package session opens connections to Postgres, each set up so that neither the role's search path nor its settings nor a pooler change what a
// statement means. Its Config is the configuration that all packages of the source share.
package session

import (
	"log/slog"

	"github.com/tailbox/tailbox/outbox"
)

// Log is the configured logger, or one that discards everything.
func (c *Config) Log() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// Config is what a pipeline knows of its database.
type Config struct {
	// Pipeline names the lock and the rows of tailbox_*.
	Pipeline string
	// URL is a connection URI or libpq keywords. LockURL, if set, is for what needs a session of its own,
	// such as the store, where URL goes through a pooler.
	URL     string
	LockURL string
	// Slot and Publication, unquoted.
	Slot        string
	Publication string
	// Poll: the table is read in the order of its sequence column, instead of the log (package polling). Slot and Publication are not used.
	Poll bool
	// Failover makes the slot one that is synchronised to standbys (17 and later; ignored before).
	Failover bool
	// TakeOver: a pipeline without a position goes on from where its slot stands, which somebody else made and left.
	TakeOver bool
	// Schema holds the tables tailbox_*; "" is the first of the search path.
	Schema string
	// Start is "pending", "now" or "": how the first position judges rows in tables without a status column.
	Start string
	// Tables in configured order. At least one. A table's Schema may be "" = found by the search path.
	Tables []outbox.Table
	// CreateTables: Init creates missing outbox tables also if they look as if they were there under another name.
	CreateTables bool
	// Messages is the prefix of messages that applications write by pg_logical_emit_message, into no table; "" = none.
	Messages string
	// MaxMessage bounds one message, in bytes; larger rows get outbox.FaultTooLarge and are not held in memory.
	MaxMessage int
	// Ignored, if not nil, counts what the log held for the publication and was dropped: update, delete, truncate, ….
	Ignored func(why string, n int)
	// Feedback, if not nil, counts the statements of feedback that were done about a table's outcome, or failed.
	Feedback func(table, outcome string, n int, why error)
	Logger   *slog.Logger
}

// defaultMaxMessage applies where the configuration has no max_message.
const defaultMaxMessage = 16 << 20

// MaxMessage is the bound of a message in bytes, n if that is set.
func MaxMessage(n int) int {
	if n <= 0 {
		return defaultMaxMessage
	}
	return n
}
