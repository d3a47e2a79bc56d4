package servers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/test/servers"
)

// echo answers each connection with what it is sent, and counts the bytes.
func echo(t *testing.T) (addr string, received <-chan int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	counts := make(chan int, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					counts <- n
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), counts
}

// dial connects to a proxy; all reads and writes end within 20 s.
func dial(t *testing.T, p *servers.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatalf("set deadline: %v", err)
	}
	return c
}

// ask sends text and reads as much back.
func ask(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

func TestProxyPassesAndCuts(t *testing.T) {
	t.Parallel()
	upstream, _ := echo(t)
	p := servers.NewProxy(t, upstream)
	c := dial(t, p)
	if got, err := ask(c, "hello"); got != "hello" || err != nil {
		t.Fatalf("echo: got %q, %v", got, err)
	}
	if err := p.Cut(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c, "hello"); err == nil {
		t.Errorf("echo over a cut connection: got %q", got)
	}
	if c, err := net.Dial("tcp", p.Addr); err == nil {
		c.Close()
		t.Error("dial while cut: got a connection")
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(dial(t, p), "again"); got != "again" || err != nil {
		t.Errorf("echo after restore: got %q, %v", got, err)
	}
}

func TestProxyStallLosesNothing(t *testing.T) {
	t.Parallel()
	upstream, _ := echo(t)
	p := servers.NewProxy(t, upstream)
	c := dial(t, p)
	p.Stall()
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c, "held"); err == nil {
		t.Errorf("echo while stalled: got %q", got)
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c, "more"); got != "held" || err != nil {
		t.Errorf("first answer after the stall: got %q, %v, want what was held", got, err)
	}
}

func TestProxyLosesAnswersOnly(t *testing.T) {
	t.Parallel()
	upstream, received := echo(t)
	p := servers.NewProxy(t, upstream)
	c := dial(t, p)
	p.LoseAnswers()
	if _, err := io.WriteString(c, "do it"); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != 5 {
		t.Errorf("bytes at the upstream: got %d, want 5", got)
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); len(got) != 0 || err == nil {
		t.Errorf("read after restore: got %q, %v, want a reset", got, err)
	}
}

func TestProxyCutsWithinAnAnswer(t *testing.T) {
	t.Parallel()
	upstream, _ := echo(t)
	p := servers.NewProxy(t, upstream)
	c := dial(t, p)
	p.CutAnswersAfter(7)
	got, err := ask(c, "0123456789")
	// A reset may overtake the last bytes, never add one.
	if err == nil || len(got) > 7 || !strings.HasPrefix("0123456", got) {
		t.Errorf("answer: got %q, %v, want at most 7 bytes and an error", got, err)
	}
	if got, err := ask(dial(t, p), "0123456789"); got != "0123456789" || err != nil {
		t.Errorf("answer on the next connection: got %q, %v", got, err)
	}
}

func TestProxyBeforePostgres(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	pg := servers.Shared(t, "17")
	p := servers.NewProxy(t, pg.Addr())
	conn := connect(t, ctx, pg.URLThrough(p, "postgres"))
	if got := queryOne[int](t, ctx, conn, "SELECT 7"); got != 7 {
		t.Errorf("query through the proxy: got %d, want 7", got)
	}
	if err := p.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(ctx); err == nil {
		t.Error("ping while cut: got no error")
	}
}

func TestProxyBeforeKafka(t *testing.T) {
	t.Parallel()
	ctx := within(t, 3*time.Minute)
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	p := k.Proxy(t)
	transport := &kafka.Transport{}
	if err := produce(ctx, []string{p.Addr}, transport, topic, "through"); err != nil {
		t.Fatalf("produce through the proxy: %v", err)
	}
	if err := p.Cut(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := produce(short, []string{p.Addr}, transport, topic, "cut"); err == nil {
		t.Error("produce while cut: got no error; the client knows another address")
	} else if errors.Is(err, context.Canceled) {
		t.Errorf("produce while cut: %v", err)
	}
}
