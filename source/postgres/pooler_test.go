package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// pooled is an address that leads to a database by way of what looks like a pooler: it tells clients process ids of its own.
func pooled(t *testing.T, url string) string {
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

// What belongs to a session (settings, an exported snapshot, a lock) goes past a pooler, which would hand it on to other clients.
func TestSessionsGoPastThePooler(t *testing.T) {
	t.Parallel()
	r := newBareRig(t, servers.Shared(t, "17"), shape("tailbox", "outbox"))
	if _, err := r.cfg.Init(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.exec("CREATE UNIQUE INDEX ON outbox (seq)") // for polling
	direct := r.cfg.URL
	r.cfg.URL, r.cfg.LockURL, r.cfg.Logger = pooled(t, direct), direct, r.cfg.logger()
	own := func(what string, conn *pgx.Conn) {
		t.Helper()
		if err := ownSession(r.ctx, conn.PgConn()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	through, err := r.cfg.dial(r.ctx, r.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := ownSession(r.ctx, through.PgConn()); !errors.Is(err, source.ErrStop) {
		t.Errorf("a session of the pooler: %v", err)
	}
	_ = closeConn(r.ctx, through)

	r.own()
	snap, err := New(r.cfg).Establish(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	own("snapshot", snap.(*tableSnapshot).conn)
	_ = snap.Close(r.ctx)
	conn, _, err := r.cfg.openPoll(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	own("polling", conn)
	_ = closeConn(r.ctx, conn)
	w := &watch{cfg: &r.cfg}
	if err := w.connect(r.ctx); err != nil {
		t.Fatal(err)
	}
	own("watch", w.conn)
	w.close(r.ctx)

	pooledOnly := r.cfg
	pooledOnly.LockURL = ""
	if _, _, err := pooledOnly.Uninstall(r.ctx, true); err == nil || !strings.Contains(err.Error(), "set source.lock_url") {
		t.Errorf("uninstall through the pooler: %v", err)
	}
	if dropped, _, err := r.cfg.Uninstall(r.ctx, true); err != nil || len(dropped) != 3 {
		t.Errorf("uninstall: %v, %v", dropped, err)
	}
}

// Debian's PgBouncer: without source.lock_url each command is refused with the fix, in every mode; with it they work in every mode, since nothing
// but the connection that reads the log goes through the pooler. That one a pooler of this version refuses.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newBareRig(t, servers.Shared(t, "17"), shape("tailbox", "outbox"))
			direct := r.cfg.URL
			r.cfg.URL, r.cfg.Logger = servers.PgBouncer(t, r.pg, mode, r.db), r.cfg.logger()
			const fix = "set source.lock_url to a direct connection"
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), fix) {
					t.Errorf("%s through the pooler: %v, want the fix", what, err)
				}
			}
			for range 3 { // the pool's second connection, and one that was used before
				_, err := r.cfg.Init(r.ctx)
				refused("init", err)
				_, err = Status(r.ctx, r.cfg)
				refused("status", err)
				_, err = r.cfg.Open(r.ctx)
				refused("run", err)
				if problems := levels(r.check(), Problem); !strings.Contains(problems, fix) || strings.Contains(problems, "42P05") {
					t.Errorf("check through the pooler: %s", problems)
				}
			}
			r.cfg.LockURL = direct
			for range 3 {
				// Init ends at the replication connection, which this pooler does not let through.
				if _, err := r.cfg.Init(r.ctx); err == nil || !strings.Contains(err.Error(), "replication") || sqlState(err) == "42P05" {
					t.Errorf("init: %v", err)
				}
				if problems := levels(r.check(), Problem); !strings.Contains(problems, "connect past the pooler") || strings.Contains(problems, "42P05") {
					t.Errorf("check: %s", problems)
				}
			}
			past := r.cfg
			past.URL = direct
			if _, err := past.Init(r.ctx); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := Status(r.ctx, r.cfg); err != nil {
					t.Errorf("status: %v", err)
				}
				st, err := r.cfg.Open(r.ctx)
				if err != nil {
					t.Fatalf("run: %v", err)
				}
				if _, err := st.Load(r.ctx); err != nil {
					t.Errorf("run: %v", err)
				}
				if err := st.Close(r.ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
