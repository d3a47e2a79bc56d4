//go:build !linux

package postgres

import (
	"net"
	"time"
)

// restOn tells that readers do not rest here.
func restOn(link) (rest func(time.Duration), release func()) { return nil, func() {} }

// directLink leaves the connection as it is.
func directLink(conn net.Conn) (link, error) { return conn, nil }
