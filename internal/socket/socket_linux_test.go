package socket

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// pair returns both ends of a connection, of which the first one is quiet.
func pair(t *testing.T, network string) (quiet, other net.Conn) {
	t.Helper()
	nc, other := servers.Pair(t, network)
	return Quiet(nc), other
}

func each(t *testing.T, run func(t *testing.T, quiet, other net.Conn)) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			quiet, other := pair(t, network)
			if _, is := quiet.(*conn); !is {
				t.Fatalf("it is a %T", quiet)
			}
			run(t, quiet, other)
		})
	}
}

// Much more than the buffers of the kernel hold goes through in both directions at once, and the end of a stream is an EOF.
func TestBothWays(t *testing.T) {
	each(t, func(t *testing.T, quiet, other net.Conn) {
		sent := make([]byte, 16<<20)
		_, _ = rand.Read(sent)
		go func() {
			_, _ = io.Copy(other, iotest.OneByteReader(io.LimitReader(other, 1000)))
			_, _ = io.Copy(other, other)
			_ = other.Close()
		}()
		wrote := make(chan error, 1)
		go func() {
			n, err := quiet.Write(sent)
			if err == nil && n != len(sent) {
				err = io.ErrShortWrite
			}
			wrote <- err
		}()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(quiet, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("what came back differs: %v", err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		if n, err := quiet.Read(nil); n != 0 || err != nil {
			t.Errorf("a read of nothing: %d, %v", n, err)
		}
		closing := closeWrite(t, quiet)
		if n, err := quiet.Read(got); n != 0 || !errors.Is(err, io.EOF) || closing != nil {
			t.Errorf("after the end: %d, %v, %v", n, err, closing)
		}
	})
}

func closeWrite(t *testing.T, nc net.Conn) (err error) {
	t.Helper()
	raw, _ := nc.(*conn).SyscallConn()
	failed := raw.Control(func(fd uintptr) { err = syscall.Shutdown(int(fd), syscall.SHUT_WR) })
	return errors.Join(err, failed)
}

// A deadline or Close ends a wait in each direction, with the errors of package net.
func TestWaitsEnd(t *testing.T) {
	each(t, func(t *testing.T, quiet, _ net.Conn) {
		const large = 64 << 20
		calls := map[string]func() error{
			"read":  func() error { _, err := quiet.Read(make([]byte, 1)); return err },
			"write": func() error { _, err := quiet.Write(make([]byte, large)); return err },
		}
		ends := func(what string, end func() error, as error) {
			failed := make(chan error)
			for op, call := range calls {
				go func() {
					err := call()
					if o := (*net.OpError)(nil); !errors.As(err, &o) || o.Op != op || !errors.Is(err, as) {
						t.Errorf("%s ended a %s with %v", what, op, err)
					}
					failed <- err
				}()
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			<-failed
			<-failed
		}
		ends("a deadline", func() error { return quiet.SetDeadline(time.Now().Add(time.Millisecond)) }, os.ErrDeadlineExceeded)
		if err := quiet.SetDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		ends("Close", quiet.Close, net.ErrClosed)
	})
}

// Errors of the socket read as those of package net.
func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, quiet, other net.Conn) {
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil {
			_, err = quiet.Write(make([]byte, 1<<20))
		}
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if o := (*net.OpError)(nil); !errors.As(err, &o) || o.Op != "write" || o.Addr == nil {
			t.Errorf("%#v", err)
		}
	})
}

// What is no socket stays as it is.
func TestOthers(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer func() { _ = a.Close(); _ = b.Close() }()
	if Quiet(a) != a {
		t.Error("a pipe was replaced")
	}
}

// A call allocates nothing.
func TestAllocations(t *testing.T) {
	quiet, other := pair(t, "tcp")
	go func() { _, _ = io.Copy(other, other) }()
	b := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		_, err := quiet.Write(b)
		if _, e := io.ReadFull(quiet, b); e != nil || err != nil {
			t.Error(err, e)
		}
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
