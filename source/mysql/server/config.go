// Package server connects to MySQL and MariaDB: what a pipeline's configuration says, connections for SQL, what a server says about itself and
// its binlog, and what its errors mean. It knows nothing of outbox tables.
package server

import "github.com/tailbox/tailbox/source"

// Kinds of server, as the configuration names them.
const (
	KindMySQL   = "mysql"
	KindMariaDB = "mariadb"
)

// A Config is what a pipeline says about its database. Source, store and setup share one.
//
// URLs are mysql://user:password@host:port/database?parameters, or a Unix socket: mysql://user@/database?socket=/path. The parameters: socket,
// connect-timeout, tls (false, true, skip-verify, preferred), tls-ca, tls-cert, tls-key, tls-server-name.
type Config struct {
	source.Config
	// Kind is KindMySQL or KindMariaDB. A server of the other kind is refused; "" takes both.
	Kind string
	// ServerID is the server_id that the reader of the binlog registers with; it must be unique among the server's
	// replicas. 0 = one is chosen at random for each connection. It is not used to poll.
	ServerID uint32
}
