package servers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy on loopback that breaks the connections through it. A
// stalled one holds what it has read and reads no more, so that the peers'
// buffers fill as behind a dead link, and nothing is lost if it flows again.
// Safe for concurrent use.
type Proxy struct {
	Addr string // host:port to dial instead of the upstream

	upstream  string
	mu        sync.Mutex
	elsewhere string       // in the place of upstream, unless it is ""
	listener  net.Listener // nil while cut
	links     map[*link]struct{}
	flow      flow
	changed   chan struct{} // closed and replaced when flow changes
	budget    int64         // bytes of answers left until the connections are cut; <0: no limit
	running   sync.WaitGroup
}

// flow says what happens to bytes under way.
type flow struct {
	stalled     bool          // nothing moves
	loseAnswers bool          // what the upstream says is thrown away
	delay       time.Duration // each chunk waits this long
}

// link is a client's connection with the one to the upstream that serves it.
type link struct {
	client, upstream net.Conn
	closed           chan struct{}
	close            func()
}

// NewProxy starts a proxy in front of upstream (host:port) for this test.
func NewProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	p, err := StartProxy(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("close proxy: %v", err)
		}
	})
	return p
}

// StartProxy starts a proxy in front of upstream; the caller closes it.
func StartProxy(upstream string) (*Proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return startProxyOn(port, upstream)
}

func startProxyOn(port int, upstream string) (*Proxy, error) {
	p := &Proxy{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), upstream: upstream,
		links: make(map[*link]struct{}), changed: make(chan struct{}), budget: -1,
	}
	if err := p.Restore(); err != nil {
		return nil, err
	}
	return p, nil
}

// Cut resets all connections and refuses new ones.
func (p *Proxy) Cut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLinks()
	if p.listener == nil {
		return nil
	}
	l := p.listener
	p.listener = nil
	if err := l.Close(); err != nil {
		return fmt.Errorf("stop listening on %s: %w", p.Addr, err)
	}
	return nil
}

// Reset resets all connections; new ones are accepted at once.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLinks()
}

// Redirect resets all connections, and leads new ones to another server; with "" to the upstream again.
func (p *Proxy) Redirect(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elsewhere = server
	p.resetLinks()
}

// Stall holds all bytes under way, of new connections too. Connections stay
// open.
func (p *Proxy) Stall() { p.setFlow(func(f *flow) { f.stalled = true }) }

// LoseAnswers lets requests through and throws away what the upstream answers.
// Restore then resets the connections, whose streams are torn.
func (p *Proxy) LoseAnswers() { p.setFlow(func(f *flow) { f.loseAnswers = true }) }

// Delay holds each chunk of up to 32 KiB for d, in both directions, which
// bounds the throughput too.
func (p *Proxy) Delay(d time.Duration) { p.setFlow(func(f *flow) { f.delay = d }) }

// CutAnswersAfter resets all connections once n more bytes of answers, of all
// connections together, have passed: in the midst of an answer, usually. New
// connections are not limited.
func (p *Proxy) CutAnswersAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// Connections is the number of connections that are open now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Restore ends every fault: connections are accepted, and bytes flow.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flow.loseAnswers {
		p.resetLinks()
	}
	p.flow, p.budget = flow{}, -1
	p.notify()
	if p.listener != nil {
		return nil
	}
	l, err := ListenAgain(p.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", p.Addr, err)
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

// Close cuts everything and waits until no goroutine is left.
func (p *Proxy) Close() error {
	err := p.Cut()
	p.running.Wait()
	return err
}

// setFlow changes the flow and wakes who waits for it.
func (p *Proxy) setFlow(change func(*flow)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.flow)
	p.notify()
}

// notify wakes the pipes; the lock is held.
func (p *Proxy) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// resetLinks ends all connections; the lock is held.
func (p *Proxy) resetLinks() {
	for l := range p.links {
		l.close()
	}
	clear(p.links)
}

// accept serves a listener until it is closed.
func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed by Cut
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve connects a client to the upstream and pipes both ways until both ends
// are done. An upstream that refuses looks to the client like a reset.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	elsewhere := p.elsewhere
	p.mu.Unlock()
	upstream, err := net.DialTimeout("tcp", cmp.Or(elsewhere, p.upstream), 10*time.Second)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, upstream: upstream, closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() {
		close(l.closed)
		reset(client)
		reset(upstream)
	})
	p.mu.Lock()
	if p.listener == nil || p.elsewhere != elsewhere { // cut or led elsewhere while we dialled
		p.mu.Unlock()
		l.close()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()

	var pipes sync.WaitGroup
	pipes.Go(func() { p.pipe(l, client, upstream, false) })
	pipes.Go(func() { p.pipe(l, upstream, client, true) })
	pipes.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	// Both directions have ended; what was written is delivered before the end.
	_ = errors.Join(client.Close(), upstream.Close())
}

// pipe moves bytes one way under the flow in force. At the end of what from
// says, to is told; an error ends the whole link.
func (p *Proxy) pipe(l *link, from, to net.Conn, answers bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			send, ok := p.pass(l, buf[:n], answers)
			if len(send) > 0 {
				if _, err := to.Write(send); err != nil {
					l.close()
					return
				}
			}
			if !ok {
				l.close()
				return
			}
		}
		if err != nil {
			if tcp, isTCP := to.(*net.TCPConn); isTCP && tcp.CloseWrite() == nil {
				return
			}
			l.close()
			return
		}
	}
}

// pass waits until a chunk may go on and says how much of it does; ok is false
// if the link ends after that.
func (p *Proxy) pass(l *link, chunk []byte, answers bool) (send []byte, ok bool) {
	delayed := false
	for {
		p.mu.Lock()
		f, changed := p.flow, p.changed
		if !f.stalled && (f.delay == 0 || delayed) {
			defer p.mu.Unlock()
			if answers && f.loseAnswers {
				return nil, true
			}
			if answers && p.budget >= 0 {
				if p.budget <= int64(len(chunk)) {
					chunk, p.budget = chunk[:p.budget], -1
					for other := range p.links {
						if other != l {
							other.close()
						}
					}
					return chunk, false
				}
				p.budget -= int64(len(chunk))
			}
			return chunk, true
		}
		p.mu.Unlock()
		var over <-chan time.Time
		if !f.stalled {
			over = time.After(f.delay)
		}
		select {
		case <-l.closed:
			return nil, false
		case <-changed:
		case <-over:
			delayed = true
		}
	}
}

// reset closes a connection so that the peer sees a reset, not an orderly end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a connection that is closed already
	}
	_ = c.Close()
}
