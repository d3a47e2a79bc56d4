package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// bufferSize is how much is read at once. Messages up to this size are decoded where they stand in the buffer.
const bufferSize = 256 << 10

var (
	// errInterrupted ends a read because somebody called interrupt.
	errInterrupted = errors.New("interrupted")
	// errDeadline ends a read at its deadline; reading can go on.
	errDeadline = errors.New("deadline")
)

// A wire is the reading half of a replication connection. Only interrupt may be called from another goroutine.
type wire struct {
	conn        link
	buf         []byte
	r, w        int // buf[r:w] is read and not consumed
	interrupted atomic.Bool
	deadline    time.Time           // that is set; zero = none
	lastRead    int                 // bytes
	streak      int                 // how many more reads found data at once than did not, in effect
	behind      bool                // what is read was committed long ago: no message is in a hurry
	resting     time.Duration       // how long the last rest was that gathers
	rest        func(time.Duration) // nil where it is not worth it
	release     func()              // what rest needs
}

// The server sends each message by a system call of its own. A reader that is faster would sleep and be woken for each of
// them, which costs both sides more than the message itself. So once restAfter reads in a row found data at once (or
// within blockedAfter), which is a stream of some 10,000 messages a second and more, the reader rests a moment before each
// read, and finds a few dozen messages instead of one. A lone transaction is far from that, and is read at once. A
// reader that is far behind rests before every read, be the server ever so slow (where it settles at the same time, say, it halts now and
// then), and the longer the less it finds, unless the last read brought so much that the server may soon have to wait for room: a socket holds some
// 200 KiB, of which each small message takes about 1 KiB. With TLS each message is a record of its own, and a read brings one record,
// however many have come: there is nothing to gather by resting.
const (
	restAfter    = 16
	streakMax    = 64
	streakLoss   = 8
	blockedAfter = 50 * time.Microsecond
	shortRest    = 70 * time.Microsecond
	longRest     = 350 * time.Microsecond
	longestRest  = 1250 * time.Microsecond
	muchAtOnce   = 32 << 10 // bytes
	littleAtOnce = 8 << 10
)

func newWire(conn link) *wire {
	w := &wire{conn: conn, buf: make([]byte, bufferSize), resting: longRest}
	w.rest, w.release = restOn(conn)
	return w
}

// close closes the connection.
func (w *wire) close() error {
	w.release()
	return w.conn.Close()
}

func (w *wire) buffered() int { return w.w - w.r }

// interrupt makes the present and all further reads fail with errInterrupted.
func (w *wire) interrupt() {
	w.interrupted.Store(true)
	// An error means that the connection is closed: the read ends by that.
	_ = w.conn.SetReadDeadline(time.Unix(1, 0))
}

// next returns the next message of the protocol if all of it is in the buffer. Its body is valid until the next read. Size is
// the length of a message's body that is not complete yet, -1 where not even that is known.
func (w *wire) next() (typ byte, body []byte, size int, err error) {
	b := w.buf[w.r:w.w]
	if len(b) < 5 {
		return 0, nil, -1, nil
	}
	size = int(binary.BigEndian.Uint32(b[1:]))
	if size < 4 || size > 1<<31-1 {
		return 0, nil, 0, fmt.Errorf("read message %q: its length is %d: %w", b[0], size, errProtocol)
	}
	if len(b) < 1+size {
		return b[0], nil, size - 4, nil
	}
	w.r += 1 + size
	return b[0], b[5 : 1+size : 1+size], size - 4, nil
}

// fill reads once, at most until a deadline (zero = none).
func (w *wire) fill(deadline time.Time) error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	} else if w.r > 0 && len(w.buf)-w.w < len(w.buf)/4 {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	if w.w == len(w.buf) {
		return fmt.Errorf("read message: larger than the buffer: %w", errProtocol)
	}
	if err := w.setDeadline(deadline); err != nil {
		return err
	}
	if w.rest != nil && (w.behind || w.streak >= restAfter) {
		w.rest(w.restFor())
	}
	start := time.Now()
	n, err := w.read(w.buf[w.w:])
	w.w += n
	w.lastRead = n
	if time.Since(start) < blockedAfter {
		w.streak = min(w.streak+1, streakMax)
	} else {
		w.streak = max(w.streak-streakLoss, 0)
	}
	return err
}

func (w *wire) restFor() time.Duration {
	switch {
	case !w.behind || w.lastRead >= muchAtOnce:
		w.resting = longRest
		return shortRest
	case w.lastRead < littleAtOnce:
		w.resting = min(2*w.resting, longestRest)
	case w.lastRead > 2*littleAtOnce:
		w.resting = max(w.resting/2, longRest)
	}
	return w.resting
}

// setDeadline changes the deadline of reads if need be.
func (w *wire) setDeadline(deadline time.Time) error {
	if deadline.Equal(w.deadline) {
		return nil
	}
	w.deadline = deadline
	if err := w.conn.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}

func (w *wire) read(b []byte) (int, error) {
	// After the deadline was set and before the read: an interrupt from here on moves the deadline.
	if w.interrupted.Load() {
		return 0, errInterrupted
	}
	n, err := w.conn.Read(b)
	switch {
	case n > 0 || err == nil:
		return n, nil // an error shows again
	case w.interrupted.Load():
		return 0, errInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errDeadline
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("read replication stream: the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return 0, fmt.Errorf("read replication stream: %w", err)
}

// need waits until n bytes are in the buffer, consumes and returns them; they are valid until the next read.
func (w *wire) need(n int) ([]byte, error) {
	for w.buffered() < n {
		if w.r > 0 && len(w.buf)-w.r < n {
			w.w = copy(w.buf, w.buf[w.r:w.w])
			w.r = 0
		}
		if err := w.fill(time.Time{}); err != nil {
			return nil, err
		}
	}
	b := w.buf[w.r : w.r+n]
	w.r += n
	return b, nil
}

// readFull fills dst, with no copy of what is not in the buffer yet.
func (w *wire) readFull(dst []byte) error {
	n := copy(dst, w.buf[w.r:w.w])
	w.r += n
	for n < len(dst) {
		m, err := w.read(dst[n:])
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}

// discard consumes n bytes.
func (w *wire) discard(n int) error {
	for n > 0 {
		if w.buffered() == 0 {
			if err := w.fill(time.Time{}); err != nil {
				return err
			}
		}
		m := min(n, w.buffered())
		w.r += m
		n -= m
	}
	return nil
}

// drain reads and forgets until the server has closed the connection, at most for a time. It is for a stream that is
// over: what the server still had to send would keep it from reading what was sent to it.
func (w *wire) drain(limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		// Each time anew: an interrupt that is late may have moved it.
		if err := w.conn.SetReadDeadline(end); err != nil {
			return
		}
		if _, err := w.conn.Read(w.buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // closed: there is nothing more to do
		}
	}
}

// serverError makes an error of the body of an ErrorResponse or NoticeResponse.
func serverError(body []byte) *pgconn.PgError {
	r := reading{body, true}
	e := &pgconn.PgError{}
	for r.ok {
		field := r.uint8()
		if field == 0 {
			break
		}
		text := r.text()
		switch field {
		case 'S':
			e.Severity = text
		case 'V':
			e.SeverityUnlocalized = text
		case 'C':
			e.Code = text
		case 'M':
			e.Message = text
		case 'D':
			e.Detail = text
		case 'H':
			e.Hint = text
		case 'W':
			e.Where = text
		case 'R':
			e.Routine = text
		}
	}
	return e
}
