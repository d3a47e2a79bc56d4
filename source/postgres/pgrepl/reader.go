package pgrepl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// commandTimeout bounds the sending of a command.
const commandTimeout = 10 * time.Second

// BufferSize is how much is read at once. A message of up to this size is parsed where it stands in the buffer.
const BufferSize = 256 << 10

var (
	// ErrInterrupted ends a read because of Interrupt.
	ErrInterrupted = errors.New("interrupted")
	// ErrDeadline ends a read at its deadline; reading can go on.
	ErrDeadline = errors.New("deadline")
)

// A Reader reads messages from a replication connection. Only Interrupt may be called from other goroutines.
type Reader struct {
	// Behind: what is read was committed long ago, so no message is urgent, and reads may wait a little for more.
	Behind      bool
	Conn        Conn
	buf         []byte
	r, w        int // buf[r:w] is read and not consumed
	interrupted atomic.Bool
	deadline    time.Time           // that is set; zero = none
	lastRead    int                 // bytes
	streak      int                 // reads that found data at once, less streakLoss for each other read
	resting     time.Duration       // length of a rest if Behind is set and the last read found less than muchAtOnce
	rest        func(time.Duration) // nil if it is not worth it
	release     func()              // what rest needs
}

// The server sends each message by a system call of its own. A reader that is faster than the server would sleep and be woken for each
// message, which costs both sides more than the message itself. So the reader rests for a moment before each read, and finds a few dozen
// messages instead of one:
//   - once restAfter reads in a row found data within blockedAfter. That is a stream of about 10,000 messages a second or more, so a lone
//     transaction is still read at once;
//   - always, if Behind is set. The rests get longer while reads find little, and shorter if a read found so much that the server may
//     soon have to wait for room: a socket holds about 200 KiB, of which each small message takes about 1 KiB.
//
// With TLS a read returns one message, however many have arrived, so there is nothing to gain by resting.
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

// NewReader returns a reader of an idle connection.
func NewReader(conn Conn) *Reader { return NewReaderSize(conn, BufferSize) }

// NewReaderSize is NewReader with a buffer of another size.
func NewReaderSize(conn Conn, size int) *Reader {
	w := &Reader{Conn: conn, buf: make([]byte, size), resting: longRest}
	w.rest, w.release = restOn(conn)
	return w
}

// Close closes the connection.
func (w *Reader) Close() error {
	w.release()
	return w.Conn.Close()
}

// Size returns the size of the buffer. A larger message has to be read piece by piece.
func (w *Reader) Size() int { return len(w.buf) }

// Buffered returns the number of bytes in the buffer.
func (w *Reader) Buffered() int { return w.w - w.r }

// Interrupt makes the present and all further reads fail with ErrInterrupted.
func (w *Reader) Interrupt() {
	w.interrupted.Store(true)
	// An error means that the connection is closed: the read ends by that.
	_ = w.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Next returns the next message of the protocol if all of it is in the buffer. Its body is valid until the next read. If it is not
// complete, body is nil, and size is the length of its body, or -1 if that was not read yet.
func (w *Reader) Next() (typ byte, body []byte, size int, err error) {
	b := w.buf[w.r:w.w]
	if len(b) < 5 {
		return 0, nil, -1, nil
	}
	size = int(binary.BigEndian.Uint32(b[1:]))
	if size < 4 || size > 1<<31-1 {
		return 0, nil, 0, fmt.Errorf("read message %q: its length is %d: %w", b[0], size, ErrProtocol)
	}
	if len(b) < 1+size {
		return b[0], nil, size - 4, nil
	}
	w.r += 1 + size
	return b[0], b[5 : 1+size : 1+size], size - 4, nil
}

// Fill reads once, at most until a deadline (zero = none).
func (w *Reader) Fill(deadline time.Time) error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	} else if w.r > 0 && len(w.buf)-w.w < len(w.buf)/4 {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	if w.w == len(w.buf) {
		return fmt.Errorf("read message: larger than the buffer: %w", ErrProtocol)
	}
	if err := w.SetDeadline(deadline); err != nil {
		return err
	}
	if w.rest != nil && (w.Behind || w.streak >= restAfter) {
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

func (w *Reader) restFor() time.Duration {
	switch {
	case !w.Behind || w.lastRead >= muchAtOnce:
		w.resting = longRest
		return shortRest
	case w.lastRead < littleAtOnce:
		w.resting = min(2*w.resting, longestRest)
	case w.lastRead > 2*littleAtOnce:
		w.resting = max(w.resting/2, longRest)
	}
	return w.resting
}

// SetDeadline changes the deadline of reads if need be.
func (w *Reader) SetDeadline(deadline time.Time) error {
	if deadline.Equal(w.deadline) {
		return nil
	}
	w.deadline = deadline
	if err := w.Conn.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}

func (w *Reader) read(b []byte) (int, error) {
	// After the deadline was set and before the read: an interrupt from here on moves the deadline.
	if w.interrupted.Load() {
		return 0, ErrInterrupted
	}
	n, err := w.Conn.Read(b)
	switch {
	case n > 0 || err == nil:
		return n, nil // an error shows again
	case w.interrupted.Load():
		return 0, ErrInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, ErrDeadline
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("read replication stream: the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return 0, fmt.Errorf("read replication stream: %w", err)
}

// Need waits until n bytes are in the buffer, and returns and consumes them. They are valid until the next read.
func (w *Reader) Need(n int) ([]byte, error) {
	for w.Buffered() < n {
		if w.r > 0 && len(w.buf)-w.r < n {
			w.w = copy(w.buf, w.buf[w.r:w.w])
			w.r = 0
		}
		if err := w.Fill(time.Time{}); err != nil {
			return nil, err
		}
	}
	b := w.buf[w.r : w.r+n]
	w.r += n
	return b, nil
}

// ReadFull fills dst. What is not in the buffer yet is read into dst directly.
func (w *Reader) ReadFull(dst []byte) error {
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

// Discard drops the next n bytes.
func (w *Reader) Discard(n int) error {
	for n > 0 {
		if w.Buffered() == 0 {
			if err := w.Fill(time.Time{}); err != nil {
				return err
			}
		}
		m := min(n, w.Buffered())
		w.r += m
		n -= m
	}
	return nil
}

// Drain reads and drops everything until the server closes the connection, at most for limit. It is for the end of a stream: as long
// as the server has something to send, it reads nothing.
func (w *Reader) Drain(limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		// Each time anew: an interrupt that is late may have moved it.
		if err := w.Conn.SetReadDeadline(end); err != nil {
			return
		}
		if _, err := w.Conn.Read(w.buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // closed: there is nothing more to do
		}
	}
}

// ParseError returns the error in the body of an ErrorResponse or NoticeResponse.
func ParseError(body []byte) *pgconn.PgError {
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

// StartOptions are the options of START_REPLICATION.
type StartOptions struct {
	Slot, Publication string
	From              LSN
	Binary            bool // values in their binary form
	Messages          bool // logical decoding messages, too
}

// Start starts the stream.
func (w *Reader) Start(o StartOptions) error {
	command := "START_REPLICATION SLOT " + ident(o.Slot) + " LOGICAL " + o.From.String() +
		" (proto_version '1', publication_names " + literal(ident(o.Publication))
	if o.Binary {
		command += ", binary 'true'"
	}
	if o.Messages {
		command += ", messages 'true'"
	}
	return w.startCopy(command + ")")
}

func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }

// startCopy sends a command that starts a COPY in both directions, and waits until it has started.
func (w *Reader) startCopy(command string) error {
	b := append(make([]byte, 0, len(command)+6), 'Q', 0, 0, 0, 0)
	b = append(append(b, command...), 0)
	putLength(b[1:], len(b)-1)
	if err := w.Conn.SetWriteDeadline(time.Now().Add(commandTimeout)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := w.Conn.Write(b); err != nil {
		return fmt.Errorf("send command: %w", err)
	}
	for {
		typ, body, _, err := w.Next()
		if err != nil {
			return err
		}
		switch {
		case body == nil:
			if err := w.Fill(time.Time{}); err != nil {
				return err
			}
		case typ == 'W':
			return nil
		case typ == 'E':
			return ParseError(body)
		case typ != 'N' && typ != 'S':
			return fmt.Errorf("start copy: message %q: %w", typ, ErrProtocol)
		}
	}
}
