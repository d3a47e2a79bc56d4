package e2e

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// A clientListener makes connections clientConns.
type clientListener struct{ net.Listener }

func (l clientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: conn}, nil
}

// A clientConn is a connection of a client, which knows at its end whether the client may have missed the last answer: who goes away
// and leaves an answer unread, or before it comes, has the connection reset by its system, or has not acknowledged it. Who has read
// all that came ends it in order.
type clientConn struct {
	net.Conn

	mu       sync.Mutex
	answered []Delivery
	missed   bool // something that was written did not arrive, or was not read
	end      bool // the client has closed it
}

func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		c.end = true
		c.mu.Unlock()
	}
	c.ended(err)
	return n, err
}

func (c *clientConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.ended(err)
	return n, err
}

// Close asks the system before, which tells of a reset that nobody has read: behind a client's end, reading stops.
func (c *clientConn) Close() error {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { // fails where it is closed already
				if code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR); err == nil && code != 0 {
					c.ended(syscall.Errno(code))
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.missed = c.missed || c.end && unacknowledged(fd)
			})
		}
	}
	return c.Conn.Close()
}

// CloseWrite is what a server does to a client that it cuts short.
func (c *clientConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

func (c *clientConn) ended(err error) {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.missed = true
	}
}

// told notes what was answered last, with nil that the next request came, and so the answer was read.
func (c *clientConn) told(ds []Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = ds
}

// unheard is what was answered on a connection that has ended, and not read.
func (c *clientConn) unheard() []Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.missed {
		return nil
	}
	return c.answered
}
