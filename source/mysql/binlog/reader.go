package binlog

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

const (
	// Heartbeat is the period of heartbeats that a user of this package asks the server for (@source_heartbeat_period).
	Heartbeat = 4 * time.Second
	// SilenceLimit is how long the server may be silent before reading fails.
	SilenceLimit = 15 * time.Second
	// BufferSize is how much is read at once. An event of up to about this size is parsed where it stands in the buffer.
	BufferSize = 256 << 10
	// maxPacket is the size of the longest packet. A longer event goes on in the next packet.
	maxPacket  = 1<<24 - 1
	packetHead = 4
)

var (
	// ErrInterrupted ends a read because of Interrupt.
	ErrInterrupted = errors.New("interrupted")
	// ErrDeadline ends a read at its deadline; reading can go on.
	ErrDeadline = errors.New("deadline")
	errSilent   = errors.New("read the binlog: the server was silent for longer than its heartbeats allow")
)

// A Reader reads packets from a connection on which the server sends its binlog. Only Interrupt and Poke may be called from other
// goroutines.
type Reader struct {
	conn        net.Conn
	buf         []byte
	r, w        int // buf[r:w] is read and not consumed
	interrupted atomic.Bool
	// heard is when something was read last, or nobody tried to read.
	heard time.Time
	large LargePacket
}

// NewReader returns a reader of a connection after the command that starts the dump was sent.
func NewReader(conn net.Conn) *Reader {
	w := &Reader{conn: conn, buf: make([]byte, BufferSize), heard: time.Now()}
	w.large.wire = w
	return w
}

// Touch sets the time from which the server's silence counts, for a user that did not read until now.
func (w *Reader) Touch(now time.Time) { w.heard = now }

// Interrupt makes the present and all further reads fail with ErrInterrupted.
func (w *Reader) Interrupt() {
	w.interrupted.Store(true)
	w.Poke()
}

// Poke makes the present read fail with ErrDeadline. Later reads are not affected.
func (w *Reader) Poke() {
	// An error means that the connection is closed: the read ends by that.
	_ = w.conn.SetReadDeadline(time.Unix(1, 0))
}

// Next returns the payload of the next packet if all of it is in the buffer. It is valid until the next read. A packet that does not
// fit into the buffer, or goes on in the next one, is large: use OpenLarge.
func (w *Reader) Next() (payload []byte, large bool) {
	b := w.buf[w.r:w.w]
	if len(b) < packetHead {
		return nil, false
	}
	size := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	if size == maxPacket || size+packetHead > len(w.buf) {
		return nil, true
	}
	if len(b) < packetHead+size {
		return nil, false
	}
	w.r += packetHead + size
	return b[packetHead : packetHead+size : packetHead+size], false
}

// Fill reads once, at most until a deadline (zero = until SilenceLimit). If waiting returns true, Fill returns after pollInterval,
// because somebody waits for an answer that does not depend on what is read.
func (w *Reader) Fill(deadline time.Time, waiting func() bool) error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	} else if w.r > 0 && len(w.buf)-w.w < len(w.buf)/4 {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	n, err := w.read(w.buf[w.w:], deadline, waiting)
	w.w += n
	return err
}

// pollInterval bounds a read while somebody waits.
const pollInterval = 100 * time.Millisecond

// read reads once.
func (w *Reader) read(b []byte, deadline time.Time, waiting func() bool) (int, error) {
	silence := w.heard.Add(SilenceLimit)
	until := silence
	if !deadline.IsZero() && deadline.Before(until) {
		until = deadline
	}
	if err := w.conn.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("set deadline: %w", err)
	}
	// After the deadline was set and before the read: an interrupt or a poke from here on moves the deadline.
	if w.interrupted.Load() {
		return 0, ErrInterrupted
	}
	if waiting != nil && waiting() {
		if err := w.conn.SetReadDeadline(time.Now().Add(pollInterval)); err != nil {
			return 0, fmt.Errorf("set deadline: %w", err)
		}
		if w.interrupted.Load() {
			return 0, ErrInterrupted
		}
	}
	n, err := w.conn.Read(b)
	switch {
	case n > 0 || err == nil:
		w.heard = time.Now()
		return n, nil // an error shows again
	case w.interrupted.Load():
		return 0, ErrInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		if time.Now().After(silence) {
			return 0, errSilent
		}
		return 0, ErrDeadline
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("read the binlog: the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return 0, fmt.Errorf("read the binlog: %w", err)
}

// A LargePacket reads a payload that is larger than the buffer, from one packet or several.
type LargePacket struct {
	wire *Reader
	left int  // of the present packet
	more bool // another packet follows
}

// OpenLarge begins to read a large payload. Nothing else may be read before Skip.
func (w *Reader) OpenLarge() (*LargePacket, error) {
	w.large.left, w.large.more = 0, true
	return &w.large, w.large.head()
}

// head reads the head of the next packet.
func (l *LargePacket) head() error {
	if !l.more {
		return io.EOF
	}
	for l.wire.w-l.wire.r < packetHead {
		if err := l.wire.wait(); err != nil {
			return err
		}
	}
	b := l.wire.buf[l.wire.r:]
	l.left = int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	l.more = l.left == maxPacket
	l.wire.r += packetHead
	return nil
}

// wait is Fill inside a payload, where a Poke has no effect.
func (w *Reader) wait() error {
	if err := w.Fill(time.Time{}, nil); err != nil && !errors.Is(err, ErrDeadline) {
		return err
	}
	return nil
}

// Read implements io.Reader.
func (l *LargePacket) Read(p []byte) (int, error) {
	for l.left == 0 {
		if err := l.head(); err != nil {
			return 0, err
		}
	}
	w := l.wire
	p = p[:min(len(p), l.left)]
	if w.r < w.w {
		n := copy(p, w.buf[w.r:w.w])
		w.r += n
		l.left -= n
		return n, nil
	}
	// Nothing is buffered: no copy is needed.
	n, err := w.read(p, time.Time{}, nil)
	l.left -= n
	if errors.Is(err, ErrDeadline) {
		err = nil
	}
	return n, err
}

// Skip reads the rest of the payload and drops it.
func (l *LargePacket) Skip() error {
	for {
		for l.left > 0 {
			if l.wire.r == l.wire.w {
				if err := l.wire.wait(); err != nil {
					return err
				}
			}
			n := min(l.left, l.wire.w-l.wire.r)
			l.wire.r += n
			l.left -= n
		}
		if err := l.head(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// ParseError returns the error in an ERR packet, as a *mysql.MyError.
func ParseError(b []byte) error {
	r := reading{b: b}
	r.take(1)
	e := &mysql.MyError{Code: r.uint16()}
	rest := r.rest()
	if len(rest) > 6 && rest[0] == '#' {
		e.State, rest = string(rest[1:6]), rest[6:]
	}
	e.Message = string(rest)
	return e
}
