package nats_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
)

// lying is a server that lets everybody in, and answers the first subscription with a text; %s in it is the subscription's number.
func lying(t *testing.T, info, answer string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			lie(c, info, answer)
		}
	}()
	return "nats://" + l.Addr().String()
}

func lie(c net.Conn, info, answer string) {
	defer c.Close()
	if _, err := fmt.Fprintf(c, "INFO %s\r\n", info); err != nil {
		return
	}
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "PING":
			_, err = c.Write([]byte("PONG\r\n"))
		case fields[0] == "SUB":
			_, err = c.Write([]byte(strings.ReplaceAll(answer, "%s", fields[len(fields)-1])))
		}
		if err != nil {
			return
		}
	}
}

// TestLyingServer: sizes that cannot be end the connection with an error, and not the process.
func TestLyingServer(t *testing.T) {
	t.Parallel()
	const info = `{"server_id":"x","version":"2.9.0","headers":true,"max_payload":1048576,"jetstream":true}`
	for name, test := range map[string]struct{ info, answer, says string }{
		"more than there is":         {info, "MSG inbox %s 9000000000000000000\r\n", "announces"},
		"more than memory":           {info, "MSG inbox %s 99999999999\r\n", "announces"},
		"more than a number":         {info, "MSG inbox %s 99999999999999999999999999\r\n", "announces"},
		"with headers":               {info, "HMSG inbox %s 12 99999999999\r\n", "announces"},
		"with a reply":               {info, "msg inbox %s reply 99999999999\r\n", "announces"},
		"behind a message":           {info, "MSG inbox %s 3\r\nabc\r\nMSG inbox %s 99999999999\r\n", "announces"},
		"behind an odd end":          {info, "MSG inbox %s 3\r\nabc\nMSG inbox %s 99999999999\r\nMSG inbox %s 99999999999\r\n", "announces"},
		"behind a line break":        {info, "MSG \nx %s 99999999999\r\n", "announces"},
		"a line without end":         {info, "-ERR " + strings.Repeat("x", 1<<20), "a line of more than"},
		"a greeting without end":     {strings.Repeat("x", 1<<20), "", "a line of more than"},
		"text before TLS, unchecked": {`{"server_id":"x","tls_required":true}` + "\r\nMSG x 1 1\r\n", "", "before TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, nats.Config{Servers: []string{lying(t, test.info, test.answer)}, ConnectTimeout: 10 * time.Second})
			err := one(t, s, delivery("orders", "1"))
			wantClass(t, err, sink.ClassUnreachable, test.says)
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}
