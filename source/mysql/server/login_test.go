package server

import (
	"io"
	"net"
	"strings"
	"testing"
)

// A server that answers the request for its public key with something else ends the login with an error, not the process.
func TestLoginAtALiar(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	packet := func(sequence byte, payload string) []byte {
		return append([]byte{byte(len(payload)), 0, 0, sequence}, payload...)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(packet(0, "\x0a8.4.0\x00\x01\x00\x00\x0012345678\x00\xff\xf7\xff\x02\x00\xff\xdf\x15"+strings.Repeat("\x00", 10)+"123456789012\x00sha256_password\x00"))
			head := make([]byte, 4)
			if _, err := io.ReadFull(c, head); err == nil {
				_, _ = io.CopyN(io.Discard, c, int64(head[0])|int64(head[1])<<8)
				_, _ = c.Write(packet(2, "\x01this is no key"))
			}
		}
	}()
	a := &Address{network: "tcp", addr: l.Addr().String(), user: "tailbox", password: "secret"}
	_, err = a.login(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "make no sense") || strings.Contains(err.Error(), "secret") {
		t.Errorf("login: %v", err)
	}
}
