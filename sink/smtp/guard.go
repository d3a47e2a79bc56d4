package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	mailsmtp "github.com/wneessen/go-mail/smtp"
)

// The library trusts servers: it reads replies of any length, and computes as many iterations of a hash as it is asked for. Whoever stands
// in for a server, before TLS as well, could fill the memory or keep a processor busy for ever.

const (
	// maxReply bytes may come from the server without a word from us in between. Replies, with a TLS handshake, have a few KiB.
	maxReply = 64 << 10
	// minIterations is what RFC 7677 wants. With less, a proof that is overheard is cheap to guess the password from. maxIterations takes a
	// second at most.
	minIterations, maxIterations = 4096, 1_000_000
)

var errLongReply = errors.New("the server's reply is longer than 64 KiB")

// guardedConn ends with an error if the server goes on and on.
type guardedConn struct {
	net.Conn
	read atomic.Int64 // since the last write
}

// Read reads what is left of a reply that may have maxReply bytes.
func (c *guardedConn) Read(b []byte) (int, error) {
	left := maxReply - c.read.Load()
	if left <= 0 {
		return 0, errLongReply
	}
	if int64(len(b)) > left {
		b = b[:left]
	}
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// Write begins the wait for a new reply.
func (c *guardedConn) Write(b []byte) (int, error) {
	c.read.Store(0)
	return c.Conn.Write(b)
}

// guardedAuth looks at what a server asks of SCRAM before the library computes it.
type guardedAuth struct{ mailsmtp.Auth }

// Next answers a challenge.
func (a guardedAuth) Next(fromServer []byte, more bool) ([]byte, error) {
	if bytes.HasPrefix(fromServer, []byte("r=")) {
		if err := checkIterations(fromServer); err != nil {
			return nil, err
		}
	}
	return a.Auth.Next(fromServer, more)
}

// checkIterations refuses a first message of the server that asks for too little or too much work.
func checkIterations(challenge []byte) error {
	for field := range bytes.SplitSeq(challenge, []byte(",")) {
		text, found := bytes.CutPrefix(field, []byte("i="))
		if !found {
			continue
		}
		n, err := strconv.Atoi(string(text))
		if err != nil || n < minIterations || n > maxIterations {
			return fmt.Errorf("the server asks for %.20q iterations of the hash: tailbox does %d to %d: choose another auth.mechanism, or set "+
				"the user's password again on the server with more iterations", text, minIterations, maxIterations)
		}
	}
	return nil
}
