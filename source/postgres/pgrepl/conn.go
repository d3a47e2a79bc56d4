package pgrepl

import (
	"io"
	"time"
)

// A Conn is a connection on which a stream runs. One goroutine reads, one writes, and any may set deadlines. Nobody uses it after
// Close, except for a late SetReadDeadline.
type Conn interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}
