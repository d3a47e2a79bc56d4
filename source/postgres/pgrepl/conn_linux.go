package pgrepl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	netsocket "github.com/tailbox/tailbox/internal/socket"
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

// A socket is a socket that Go's network poller watches only while a reader waits. The poller would watch it all the time, so every message
// that the server sends would wake a thread. The server pays for that in its send, which bounds the speed of a stream.
type socket struct {
	fd   int
	gate *os.File                       // an epoll instance, which the network poller watches. It holds the socket while a reader waits
	raw  syscall.RawConn                // of gate
	pass func(gate uintptr) (done bool) // enter, made once, so that a wait allocates nothing

	armed         bool  // in this wait
	failed        error // of enter
	writeDeadline time.Time
}

// DirectConn takes over the socket of a plain connection. Any other connection, such as one with TLS, is returned as it is.
func DirectConn(conn net.Conn) (Conn, error) {
	owner, is := conn.(syscall.Conn)
	if !is {
		return conn, nil
	}
	s, err := duplicate(owner)
	if err != nil {
		return nil, fmt.Errorf("take over socket: %w", err)
	}
	// This takes the socket out of the poller; the duplicate keeps the connection open.
	if err := conn.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("take over socket: %w", err), s.Close())
	}
	return s, nil
}

func duplicate(owner syscall.Conn) (*socket, error) {
	raw, err := owner.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{fd: -1}
	var dupErr error
	err = raw.Control(func(fd uintptr) { s.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		return nil, err
	}
	gate, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make epoll instance: %w", err), unix.Close(s.fd))
	}
	err = unix.SetNonblock(gate, true)
	s.gate = os.NewFile(uintptr(gate), "epoll")
	s.raw, dupErr = s.gate.SyscallConn()
	// A file without a deadline is one that the poller does not watch.
	if err = errors.Join(err, dupErr, s.gate.SetReadDeadline(time.Time{})); err != nil {
		return nil, errors.Join(fmt.Errorf("watch socket: %w", err), s.Close())
	}
	s.pass = s.enter
	return s, nil
}

// Read implements Conn.
func (s *socket) Read(b []byte) (int, error) {
	for {
		n, err := netsocket.Read(uintptr(s.fd), b)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EAGAIN):
			if err := s.wait(); err != nil {
				return 0, err
			}
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		default:
			return 0, os.NewSyscallError("read", err)
		}
	}
}

// wait waits until the socket is ready, or the deadline for reading. It may return early.
func (s *socket) wait() error {
	s.armed, s.failed = false, nil
	err := s.raw.Read(s.pass)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = s.raw.Control(s.shut) // fails if it is closed
		return os.ErrDeadlineExceeded
	}
	return errors.Join(err, s.failed)
}

// enter puts the socket into the gate at its first call, and is called again when the gate has opened. It does so within the poller's
// call: before that, the poller forgets what it knew of the gate.
func (s *socket) enter(gate uintptr) (done bool) {
	if s.armed {
		s.shut(gate)
		return true
	}
	s.armed = true
	s.failed = s.watch(gate, unix.EPOLL_CTL_ADD)
	return s.failed != nil
}

// shut empties the gate, since a gate that is open does not open again. A socket in a gate, even in one that does not wait for it, also
// costs the server time in each send.
func (s *socket) shut(gate uintptr) { _ = s.watch(gate, unix.EPOLL_CTL_DEL) } // what fails shows when it is put in again

// watch does not tell Go's scheduler, as package internal/socket explains.
func (s *socket) watch(gate uintptr, op uintptr) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, gate, op, uintptr(s.fd), uintptr(unsafe.Pointer(&e)), 0, 0); errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// Write implements Conn.
func (s *socket) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n, err := netsocket.Write(uintptr(s.fd), b[written:])
		written += n
		switch {
		case err == nil:
		case !errors.Is(err, unix.EAGAIN):
			return written, os.NewSyscallError("write", err)
		default:
			if err := s.waitForRoom(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// waitForRoom waits until the socket takes more, or the deadline for writing.
func (s *socket) waitForRoom() error {
	for {
		timeout := -1
		if !s.writeDeadline.IsZero() {
			left := time.Until(s.writeDeadline)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			timeout = int(min(left+time.Millisecond-1, time.Hour) / time.Millisecond)
		}
		switch n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}, timeout); {
		case n > 0:
			return nil // ready, or broken, which the next call tells
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		}
	}
}

// SetReadDeadline implements Conn.
func (s *socket) SetReadDeadline(t time.Time) error { return s.gate.SetReadDeadline(t) }

// SetWriteDeadline implements Conn. Only the writing goroutine calls it.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeDeadline = t
	return nil
}

// Close implements Conn.
func (s *socket) Close() error {
	if err := s.gate.Close(); err != nil {
		return err // it was closed before
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}
