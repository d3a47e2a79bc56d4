package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Read reads once from a socket that does not block, without telling the scheduler. Its errors are io.EOF and syscall.Errno, of which
// EAGAIN says that nothing has arrived.
func Read(fd uintptr, b []byte) (int, error) {
	n, err := read(fd, b)
	if n == 0 && err == nil && len(b) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// Write writes once to a socket that does not block, without telling the scheduler. Its errors are of type syscall.Errno. EAGAIN says that
// there is no room.
func Write(fd uintptr, b []byte) (int, error) { return write(fd, b) }

// Quiet returns a connection that reads and writes as this package does. Nobody may use the given one any more. What is not a socket, such as
// a connection with TLS, is returned as it is: make it from a quiet one.
func Quiet(nc net.Conn) net.Conn {
	s, is := nc.(syscall.Conn)
	if !is {
		return nc
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nc // it is closed, which the next call tells
	}
	c := &conn{Conn: nc, raw: raw}
	c.reader.init(Read, raw.Read)
	c.writer.init(Write, raw.Write)
	return c
}

// conn is a connection whose waits and deadlines are those of Go's network poller.
type conn struct {
	net.Conn
	raw            syscall.RawConn
	reader, writer half
}

// A half is one direction of a connection. Its functions are made once, so that a call allocates nothing.
type half struct {
	wait func(try func(fd uintptr) (done bool)) error // tries, and waits until it is done
	try  func(fd uintptr) (done bool)

	mu  sync.Mutex // one call at a time, which owns the rest
	b   []byte
	n   int
	err error
}

func (h *half) init(once func(uintptr, []byte) (int, error), wait func(func(uintptr) bool) error) {
	h.wait = wait
	h.try = func(fd uintptr) bool {
		h.n, h.err = once(fd, h.b)
		return !errors.Is(h.err, syscall.EAGAIN)
	}
}

// do makes one call, and waits until it is possible.
func (h *half) do(b []byte) (int, error) {
	h.b, h.n, h.err = b, 0, nil
	err := h.wait(h.try)
	h.b = nil
	if err != nil {
		return 0, err
	}
	return h.n, h.err
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.reader.mu.Lock()
	defer c.reader.mu.Unlock()
	n, err := c.reader.do(b)
	return n, c.opError("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (written int, err error) {
	c.writer.mu.Lock()
	defer c.writer.mu.Unlock()
	for written < len(b) && err == nil {
		var n int
		n, err = c.writer.do(b[written:])
		written += n
	}
	return written, c.opError("write", err)
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// opError returns an error as those of package net are.
func (c *conn) opError(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if failed := (*net.OpError)(nil); errors.As(err, &failed) {
		err = failed.Err // of the wait, which calls itself raw-read
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
