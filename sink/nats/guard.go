package nats

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
)

const (
	// maxMessage bounds a message that a server may send us: acknowledgements, and answers of JetStream, which come in pages.
	maxMessage = 8 << 20
	// maxLine bounds a control line. INFO, which lists the cluster's servers, is the longest.
	maxLine = 64 << 10
)

// A guard is a connection whose server's control lines are looked at before the library sees them: it makes room for as
// many bytes as a line announces, and ends the process if there are not so many. TLS is spoken below the guard, so that it
// sees the lines there too.
type guard struct {
	net.Conn
	in    *bufio.Reader
	tls   *tls.Conn
	plain bool // the first line has not been read to its end: what is behind it may be TLS
	lines lines
	// err is of TLS, and is written before anybody else uses the connection; broken is the reader's own.
	err, broken error
}

func newGuard(nc net.Conn) *guard { return &guard{Conn: nc, in: bufio.NewReader(nc), plain: true} }

// startTLS shakes hands after the first line. An error ends the connection.
func (g *guard) startTLS(ctx context.Context, cfg *tls.Config) {
	if g.in.Buffered() > 0 {
		g.err = errors.New("the server says more before TLS than its INFO")
		return
	}
	tc := tls.Client(g.Conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		g.err = fmt.Errorf("shake hands: %w", err)
		return
	}
	g.tls = tc
	g.in.Reset(tc)
}

// Read implements net.Conn.
func (g *guard) Read(p []byte) (n int, err error) {
	if g.err != nil {
		return 0, g.err
	}
	if g.broken != nil {
		return 0, g.broken
	}
	if g.plain {
		n, err = g.readFirst(p)
	} else {
		n, err = g.in.Read(p)
	}
	if problem := g.lines.pass(p[:n]); problem != nil {
		g.broken = problem
		return 0, errors.Join(problem, g.Close())
	}
	return n, err
}

// readFirst reads no further than to the end of the first line.
func (g *guard) readFirst(p []byte) (n int, err error) {
	for n < len(p) && g.plain && err == nil && (n == 0 || g.in.Buffered() > 0) {
		if p[n], err = g.in.ReadByte(); err == nil {
			g.plain = p[n] != '\n'
			n++
		}
	}
	return n, err
}

// Write implements net.Conn.
func (g *guard) Write(p []byte) (int, error) {
	switch {
	case g.err != nil:
		return 0, g.err
	case g.tls != nil:
		return g.tls.Write(p)
	}
	return g.Conn.Write(p)
}

// Close implements net.Conn. It says no goodbye of TLS, which could hang.
func (g *guard) Close() error { return g.Conn.Close() }

// lines follows the protocol as far as is needed to find the lines that announce sizes.
type lines struct {
	line    []byte // what is read of the present line
	skip    int    // bytes of a message that follow
	payload bool   // the present line is the end of a message
}

// pass looks at the next bytes of the server. It follows the library's parser, which takes one byte after a message for its
// end whatever it is, and then the rest of that line.
func (l *lines) pass(b []byte) error {
	for len(b) > 0 {
		if l.skip > 0 {
			n := min(l.skip, len(b))
			l.skip -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if !l.payload {
			if len(l.line)+len(part) > maxLine {
				return fmt.Errorf("the server sends a line of more than %d bytes: is it a NATS server?", maxLine)
			}
			l.line = append(l.line, part...)
		}
		if end < 0 {
			return nil
		}
		b = b[end+1:]
		if err := l.end(); err != nil {
			return err
		}
	}
	return nil
}

// end ends a line.
func (l *lines) end() error {
	if l.payload {
		l.payload = false
		return nil
	}
	line := l.line
	if l.line = line[:0]; cap(line) > 4<<10 {
		l.line = nil
	}
	if !announces(line) {
		return nil
	}
	fields := bytes.Fields(line)
	size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 63)
	if err != nil || size > maxMessage || len(fields) < 4 {
		return fmt.Errorf("the server announces a message of a size that cannot be (%.100q), or of more than %d bytes", line, maxMessage)
	}
	l.skip, l.payload = int(size)+1, true
	return nil
}

// announces reports whether a message follows a line.
func announces(line []byte) bool {
	for _, op := range []string{"MSG", "HMSG"} {
		if len(line) >= len(op) && bytes.EqualFold(line[:len(op)], []byte(op)) {
			return true
		}
	}
	return false
}
