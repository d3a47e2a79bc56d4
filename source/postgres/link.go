package postgres

import (
	"io"
	"time"
)

// A link is what the stream needs of a network connection. One goroutine reads, one writes, any may set deadlines; all
// are done with it when it is closed, but for a late SetReadDeadline.
type link interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}
