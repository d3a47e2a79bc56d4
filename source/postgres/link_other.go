//go:build !linux

package postgres

import (
	"net"
	"time"
)

// rest does nothing here.
func rest(time.Duration) {}

// gathers does not matter where there is no rest.
func gathers(link) bool { return false }

// directLink leaves the connection as it is.
func directLink(conn net.Conn) (link, error) { return conn, nil }
