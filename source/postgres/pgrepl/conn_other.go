//go:build !linux

package pgrepl

import (
	"net"
	"time"
)

// restOn returns nil: only Linux has a timer for it.
func restOn(Conn) (rest func(time.Duration), release func()) { return nil, func() {} }

// DirectConn returns the connection as it is.
func DirectConn(conn net.Conn) (Conn, error) { return conn, nil }
