// Package server connects to MySQL and MariaDB: what a pipeline's configuration says, connections for SQL, what a server says about itself and
// its binlog, and what its errors mean. It knows nothing of outbox tables.
package server

import (
	"log/slog"

	"github.com/tailbox/tailbox/outbox"
)

// Kinds of server, as the configuration names them.
const (
	KindMySQL   = "mysql"
	KindMariaDB = "mariadb"
)

// A Config is what a pipeline says about its database. Source, store and setup share one.
type Config struct {
	// Kind is KindMySQL or KindMariaDB. A server of the other kind is refused; "" takes both.
	Kind string
	// Pipeline names the lock and the rows of tailbox_*.
	Pipeline string
	// URL is mysql://user:password@host:port/database?parameters, or a Unix socket: mysql://user@/database?socket=/path.
	// The parameters: socket, connect-timeout, tls (false, true, skip-verify, preferred), tls-ca, tls-cert, tls-key,
	// tls-server-name. LockURL, if set, is for the store's session where URL goes through a proxy.
	URL     string
	LockURL string
	// ServerID is the server_id that the reader of the binlog registers with; it must be unique among the server's
	// replicas. 0 = one is chosen at random for each connection.
	ServerID uint32
	// Poll: the table is read in the order of its AUTO_INCREMENT column, instead of the binlog (polling.New). ServerID is not used.
	Poll bool
	// Schema is the database that holds the tables tailbox_*; "" is the database of the URL.
	Schema string
	// Start is "pending", "now" or "": how the first position judges rows in tables without a status column.
	Start string
	// Tables in configured order. At least one. A table's Schema may be "" = the database of the URL.
	Tables []outbox.Table
	// CreateTables: Init creates missing outbox tables also if they look as if they were there under another name.
	CreateTables bool
	// MaxMessage bounds one message, in bytes; larger rows get outbox.FaultTooLarge and are not held in memory.
	MaxMessage int
	// Ignored, if not nil, counts what the log held for the tables and was dropped: update, delete, truncate, ….
	Ignored func(why string, n int)
	// Feedback, if not nil, counts the statements of feedback that were done about a table's outcome, or failed.
	Feedback func(table, outcome string, n int, why error)
	Logger   *slog.Logger
}

// Log is the logger; one that discards everything if none is configured.
func (c *Config) Log() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
