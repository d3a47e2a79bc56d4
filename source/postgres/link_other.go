//go:build !linux

package postgres

import (
	"net"
	"time"
)

// rest does nothing here.
func rest(time.Duration) {}

// directLink leaves the connection as it is.
func directLink(conn net.Conn) (link, error) { return conn, nil }
