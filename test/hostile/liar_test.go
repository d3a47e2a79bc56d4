package hostile

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A liar is a server that does to each connection what its lie says, until the client goes away or the lie is over.
type liar struct {
	addr string

	mu    sync.Mutex
	lie   lie
	conns map[net.Conn]struct{}
	met   int // connections of this lie, whose client has sent or waited for something
}

// A lie is what a server does to one connection. It returns to close it.
type lie func(c net.Conn, r *bufio.Reader)

func newLiar(tb testing.TB) *liar {
	tb.Helper()
	l := &liar{conns: map[net.Conn]struct{}{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l.addr = listener.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed at the test's end
			}
			running.Go(func() { l.serve(c) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close() // nobody is served any more
		l.tell(nil)
		running.Wait()
	})
	return l
}

// tell begins another lie; nil closes every connection.
func (l *liar) tell(lie lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.met = lie, 0
	for c := range l.conns {
		_ = c.Close() // its lie is over
	}
}

func (l *liar) serve(c net.Conn) {
	l.mu.Lock()
	lie := l.lie
	l.conns[c] = struct{}{}
	l.met++
	l.mu.Unlock()
	if lie != nil {
		lie(c, bufio.NewReader(c))
	}
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
	_ = c.Close() // it may be closed already
}

// heard is how many connections the lie had.
func (l *liar) heard() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.met
}

// first waits until the client has sent something.
func first(then lie) lie {
	return func(c net.Conn, r *bufio.Reader) {
		if _, err := r.Peek(1); err == nil {
			then(c, r)
		}
	}
}

// silent reads, and says nothing more than a text.
func silent(text string) lie {
	return func(c net.Conn, r *bufio.Reader) {
		if _, err := io.WriteString(c, text); err == nil {
			_, _ = io.Copy(io.Discard, r) // until the client goes away
		}
	}
}

// closing says a text and hangs up.
func closing(text string) lie {
	return func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, text) // the client may have gone away
	}
}

// slow says a text byte by byte.
func slow(text string) lie {
	return func(c net.Conn, _ *bufio.Reader) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			<-tick.C
		}
	}
}

// endless begins with a text, and repeats another one for ever, as fast as it is read.
func endless(begin, again string) lie {
	return func(c net.Conn, r *bufio.Reader) {
		go func() { _, _ = io.Copy(io.Discard, r) }() // the client may write before it reads
		if _, err := io.WriteString(c, begin); err != nil {
			return
		}
		again := strings.Repeat(again, max(1, 32<<10/len(again)))
		for {
			if _, err := io.WriteString(c, again); err != nil {
				return
			}
		}
	}
}

// talk answers each line by the longest beginning that answers has; a line that none begins is not answered.
func talk(greeting string, answers map[string]string) lie {
	return func(c net.Conn, r *bufio.Reader) {
		if _, err := io.WriteString(c, greeting); err != nil {
			return
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			answer, known := "", ""
			for begin, text := range answers {
				if len(begin) > len(known) && strings.HasPrefix(line, begin) {
					answer, known = text, begin
				}
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}
