package pgtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pooled is an address that leads to a database by way of what looks like a pooler: it tells clients process ids of its own.
func Pooled(t *testing.T, url string) string {
	t.Helper()
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	network, address := pgconn.NetworkAddress(cc.Host, cc.Port)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				server, err := (&net.Dialer{}).DialContext(t.Context(), network, address)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() {
					_, _ = io.Copy(server, client)
					_ = server.Close()
				}()
				if greet(client, server) == nil {
					_, _ = io.Copy(client, server)
				}
			}()
		}
	}()
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", cc.User, l.Addr(), cc.Database)
}

// greet passes on what the server says up to the key of its process, which it changes.
func greet(client io.Writer, server io.Reader) error {
	const keyData = 'K'
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return err
		}
		if head[0] == keyData {
			binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)^1<<30)
		}
		if _, err := client.Write(append(head, body...)); err != nil || head[0] == keyData {
			return err
		}
	}
}
