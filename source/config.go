package source

import (
	"log/slog"

	"github.com/tailbox/tailbox/outbox"
)

// A Config is what a pipeline says about its database, whatever the kind. The configuration of each kind embeds it.
type Config struct {
	// Pipeline names the lock and the rows of tailbox_*.
	Pipeline string
	// URL leads to the database, in the form of its kind. LockURL, if set, is for what needs a session of its own, such as the store, if URL goes
	// through a pooler or proxy; MongoDB has none.
	URL, LockURL string
	// Poll: the table is read in the order of its sequence column, instead of the log. Not of MongoDB.
	Poll bool
	// Schema is the schema or database that holds the tables tailbox_*; "" is the one that URL leads to.
	Schema string
	// Start is "pending", "now" or "": how the first position judges rows in tables without a status column.
	Start string
	// LeftOff, if set, is where another reader of the log stopped, from which a pipeline without a position goes on. Not of Postgres, whose slot says
	// it.
	LeftOff LeftOff
	// Tables in configured order. At least one. If a table's Schema is "", the table is looked for where URL leads to.
	Tables []outbox.Table
	// CreateTables: init creates missing outbox tables also if they look as if they were there under another name.
	CreateTables bool
	// MaxMessage bounds one message, in bytes; larger rows get outbox.FaultTooLarge and are not held in memory.
	MaxMessage int
	// Ignored, if not nil, counts what the log held for the tables and was dropped: update, delete, truncate, …. Not of MongoDB.
	Ignored func(why string, n int)
	// Feedback, if not nil, counts the statements of feedback that were done about a table's outcome, or failed.
	Feedback func(table, outcome string, n int, why error)
	Logger   *slog.Logger
}

// A LeftOff is where a reader of a log that is not tailbox stopped, in its own words.
type LeftOff struct {
	// Position is file:position of a binlog, or the text (_data) of a resume token of MongoDB.
	Position string
	// GTIDs are those of all transactions before Position, as MySQL and MariaDB write them; "" if that reader kept none.
	GTIDs string
}

// OverlapFix is what to do if a reader's position cannot be taken over.
const OverlapFix = "nothing else tells what the other reader has sent: start it again, and let tailbox begin while it runs: remove source.take_over, set source.start " +
	"to now, run tailbox init, then commit a message, and stop the other reader once it has sent that one: what both have sent arrives twice, nothing is lost; " +
	"if on_delivered is delete or mark, first remove or mark the rows that were sent, since tailbox delivers what looks pending"

// Log is the logger; one that discards everything if none is configured.
func (c *Config) Log() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// defaultMaxMessage applies if the configuration has no max_message.
const defaultMaxMessage = 16 << 20

// MaxMessage is the bound of a message in bytes: n, or the default if n is not set.
func MaxMessage(n int) int {
	if n <= 0 {
		return defaultMaxMessage
	}
	return n
}
