package pgrepl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// restOn returns a function by which a reader sleeps for less than a millisecond, or nil if a read of this connection does not return
// all that has arrived. A goroutine's sleep lasts a millisecond or more. A thread's sleep is exact, but every 20 µs Go's monitor looks at
// a thread that is in a system call, which takes more of the processor than the reader does. So it sleeps on a timer of the kernel
// (timerfd) that Go's network poller waits for. The second result releases the timer.
func restOn(l Conn) (rest func(time.Duration), release func()) {
	if _, direct := l.(*socket); !direct {
		return nil, func() {}
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, func() {} // without a rest the stream costs more, and works
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	var fired [8]byte
	return func(d time.Duration) {
		at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
		if unix.TimerfdSettime(fd, 0, &at, nil) == nil {
			_, _ = timer.Read(fired[:]) // a rest that fails is a short one
		}
	}, func() { _ = timer.Close() }
}

// A socket is a socket that Go's network poller does not watch. The poller watches all its sockets at once, so every message that the
// server sends would wake a thread, even if no reader waits for it. The server pays for that in its send, which bounds the speed of
// a stream.
type socket struct {
	fd            int
	poke          int          // an eventfd that ends a wait
	readDeadline  atomic.Int64 // in ns since 1970; 0 = none
	writeDeadline time.Time

	mu     sync.Mutex // deadlines are set by any goroutine, also while another one closes the socket
	closed bool
}

// DirectConn takes over the socket of a plain connection. Any other connection, such as one with TLS, is returned as it is.
func DirectConn(conn net.Conn) (Conn, error) {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return conn, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take over socket: %w", err)
	}
	s := &socket{fd: -1}
	var dupErr error
	err = raw.Control(func(fd uintptr) { s.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		return nil, fmt.Errorf("take over socket: %w", err)
	}
	if s.poke, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("make eventfd: %w", err), unix.Close(s.fd))
	}
	// This takes the socket out of the poller; the duplicate keeps the connection open.
	if err := conn.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("take over socket: %w", err), s.Close())
	}
	return s, nil
}

// Read implements Conn.
func (s *socket) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case errors.Is(err, unix.EAGAIN):
			if err := s.wait(unix.POLLIN, s.readDeadline.Load); err != nil {
				return 0, err
			}
		case !errors.Is(err, unix.EINTR):
			return 0, os.NewSyscallError("read", err)
		}
	}
}

// Write implements Conn.
func (s *socket) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n, err := unix.Write(s.fd, b[written:])
		switch {
		case n > 0:
			written += n
		case errors.Is(err, unix.EAGAIN):
			if err := s.wait(unix.POLLOUT, s.writeDeadline.UnixNano); err != nil {
				return written, err
			}
		case !errors.Is(err, unix.EINTR):
			return written, os.NewSyscallError("write", err)
		}
	}
	return written, nil
}

// wait waits until the socket is ready, or the deadline. A deadline for reading can change meanwhile.
func (s *socket) wait(events int16, deadline func() int64) error {
	fds := [2]unix.PollFd{{Fd: int32(s.fd), Events: events}, {Fd: int32(s.poke), Events: unix.POLLIN}}
	polled := fds[:]
	if events == unix.POLLOUT {
		polled = fds[:1] // pokes are for the reader
	}
	for {
		timeout := -1
		if d := deadline(); d != 0 {
			left := time.Until(time.Unix(0, d))
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			timeout = int(min(left+time.Millisecond-1, time.Hour) / time.Millisecond)
		}
		if _, err := unix.Poll(polled, timeout); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if fds[1].Revents != 0 {
			var count [8]byte
			if _, err := unix.Read(s.poke, count[:]); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return os.NewSyscallError("read eventfd", err)
			}
			fds[1].Revents = 0
		}
		if fds[0].Revents != 0 {
			return nil // ready, or broken, which the next call tells
		}
	}
}

// SetReadDeadline implements Conn.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if t.IsZero() {
		s.readDeadline.Store(0)
		return nil
	}
	s.readDeadline.Store(t.UnixNano())
	if _, err := unix.Write(s.poke, binary.NativeEndian.AppendUint64(nil, 1)); err != nil && !errors.Is(err, unix.EAGAIN) {
		return os.NewSyscallError("write eventfd", err)
	}
	return nil
}

// SetWriteDeadline implements Conn. Only the writing goroutine calls it.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeDeadline = t
	return nil
}

// Close implements Conn.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	return errors.Join(os.NewSyscallError("close", unix.Close(s.fd)), os.NewSyscallError("close", unix.Close(s.poke)))
}
