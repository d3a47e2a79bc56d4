package e2e

import (
	"errors"
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
// and leaves an answer unread, or before it comes, has the connection reset by its system. Who has read all that came ends it in order.
type clientConn struct {
	net.Conn

	mu       sync.Mutex
	answered []Delivery
	reset    bool
}

func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
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
			})
		}
	}
	return c.Conn.Close()
}

func (c *clientConn) ended(err error) {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reset = true
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
	if !c.reset {
		return nil
	}
	return c.answered
}
