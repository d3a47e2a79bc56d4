package smtp_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/smtp"
)

// liar is a server that speaks to each connection as it likes.
func liar(t *testing.T, speak func(c net.Conn, lines *bufio.Scanner)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				speak(c, bufio.NewScanner(c))
			}()
		}
	}()
	return l.Addr().String()
}

// TestEndlessReply: a reply without end is given up, before a limit of time would, and after a little of it.
func TestEndlessReply(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	address := liar(t, func(c net.Conn, _ *bufio.Scanner) {
		line := []byte("220-" + strings.Repeat("x", 1000) + "\r\n")
		n, _ := io.Copy(c, bytes.NewReader(bytes.Repeat(line, 64<<10))) // 64 MiB, as far as they are taken
		sent <- n
	})
	s := newSink(t, smtp.Config{Address: address, ConnectTimeout: time.Minute})
	err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("a1", "a")})[0]
	if class(err) != sink.ClassUnreachable || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("%v: %v, want an error about the reply", class(err), err)
	}
	if n := <-sent; n > 32<<20 {
		t.Errorf("the server could send %d bytes", n)
	}
}

// TestIterations: a server that asks for more work than a login takes, or for so little that the proof betrays the password, gets none.
func TestIterations(t *testing.T) {
	t.Parallel()
	for _, iterations := range []string{"9000000000", "99999999999999999999999", "1", "-1", "x"} {
		address := liar(t, func(c net.Conn, lines *bufio.Scanner) {
			fmt.Fprint(c, "220 hello\r\n")
			for lines.Scan() {
				switch line := lines.Text(); {
				case strings.HasPrefix(line, "EHLO"):
					fmt.Fprint(c, "250-hello\r\n250 AUTH SCRAM-SHA-256\r\n")
				case strings.HasPrefix(line, "AUTH"):
					fmt.Fprint(c, "334 \r\n")
				default:
					first, err := base64.StdEncoding.DecodeString(line)
					_, nonce, found := strings.Cut(string(first), "r=")
					if err != nil || !found {
						return
					}
					answer := "r=" + nonce + "more,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=" + iterations
					fmt.Fprintf(c, "334 %s\r\n", base64.StdEncoding.EncodeToString([]byte(answer)))
				}
			}
		})
		s := newSink(t, smtp.Config{Address: address, Security: smtp.Opportunistic, Auth: &smtp.Auth{Mechanism: "scram-sha-256", Username: "u", Password: "p"}})
		err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("a1", "a")})[0]
		if err == nil || !strings.Contains(err.Error(), "iterations") {
			t.Errorf("i=%s: %v: %v, want an error about the iterations", iterations, class(err), err)
		}
	}
}
