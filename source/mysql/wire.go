package mysql

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
	// bufferSize is how much is read at once. Events up to about this size are decoded where they stand in the buffer.
	bufferSize = 256 << 10
	// maxPacket is the longest packet; a longer event goes on in the next one.
	maxPacket  = 1<<24 - 1
	packetHead = 4
)

var (
	// errInterrupted ends a read because somebody called interrupt.
	errInterrupted = errors.New("interrupted")
	// errDeadline ends a read at its deadline; reading can go on.
	errDeadline = errors.New("deadline")
	errSilent   = errors.New("read the binlog: the server was silent for longer than its heartbeats allow")
)

// A wire is the reading half of the connection that the binlog comes over. Only interrupt and poke may be called from
// another goroutine.
type wire struct {
	conn        net.Conn
	buf         []byte
	r, w        int // buf[r:w] is read and not consumed
	interrupted atomic.Bool
	// heard is when the server was heard of last, or could have been.
	heard time.Time
	large largeBody
}

func newWire(conn net.Conn) *wire {
	w := &wire{conn: conn, buf: make([]byte, bufferSize), heard: time.Now()}
	w.large.wire = w
	return w
}

// interrupt makes the present and all further reads fail with errInterrupted.
func (w *wire) interrupt() {
	w.interrupted.Store(true)
	w.poke()
}

// poke makes the present read fail with errDeadline.
func (w *wire) poke() {
	// An error means that the connection is closed: the read ends by that.
	_ = w.conn.SetReadDeadline(time.Unix(1, 0))
}

// next returns the next packet's payload if all of it is in the buffer; it is valid until the next read. A packet that does not
// fit into the buffer, or goes on in the next one, is large: see openLarge.
func (w *wire) next() (payload []byte, large bool) {
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

// fill reads once, at most until a deadline (zero = none but the server's silence). Waiting tells whether somebody
// waits for an answer that may be there without anything to read.
func (w *wire) fill(deadline time.Time, waiting func() bool) error {
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

// pollInterval is how often a wait is looked at again while somebody waits.
const pollInterval = 100 * time.Millisecond

// read reads once.
func (w *wire) read(b []byte, deadline time.Time, waiting func() bool) (int, error) {
	silence := w.heard.Add(silenceLimit)
	until := silence
	if !deadline.IsZero() && deadline.Before(until) {
		until = deadline
	}
	if err := w.conn.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("set deadline: %w", err)
	}
	// After the deadline was set and before the read: an interrupt or a poke from here on moves the deadline.
	if w.interrupted.Load() {
		return 0, errInterrupted
	}
	if waiting != nil && waiting() {
		if err := w.conn.SetReadDeadline(time.Now().Add(pollInterval)); err != nil {
			return 0, fmt.Errorf("set deadline: %w", err)
		}
		if w.interrupted.Load() {
			return 0, errInterrupted
		}
	}
	n, err := w.conn.Read(b)
	switch {
	case n > 0 || err == nil:
		w.heard = time.Now()
		return n, nil // an error shows again
	case w.interrupted.Load():
		return 0, errInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		if time.Now().After(silence) {
			return 0, errSilent
		}
		return 0, errDeadline
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("read the binlog: the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return 0, fmt.Errorf("read the binlog: %w", err)
}

// A largeBody is the payload of a packet, or of several, that is larger than the buffer: it is read in pieces.
type largeBody struct {
	wire *wire
	left int  // of the present packet
	more bool // another packet follows
}

// openLarge consumes the head of the first packet of a large payload.
func (w *wire) openLarge() (*largeBody, error) {
	w.large.left, w.large.more = 0, true
	return &w.large, w.large.head()
}

// head goes to the next packet.
func (l *largeBody) head() error {
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

// wait is fill inside a payload: a deadline is none.
func (w *wire) wait() error {
	if err := w.fill(time.Time{}, nil); err != nil && !errors.Is(err, errDeadline) {
		return err
	}
	return nil
}

// Read reads what comes next; io.EOF at the end of the payload.
func (l *largeBody) Read(p []byte) (int, error) {
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
	if errors.Is(err, errDeadline) {
		err = nil
	}
	return n, err
}

// skip consumes all that is left.
func (l *largeBody) skip() error {
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

// errorPacket makes an error of the payload of an ERR packet.
func errorPacket(b []byte) error {
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
