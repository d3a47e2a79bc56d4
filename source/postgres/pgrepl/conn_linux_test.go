package pgrepl

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// direct returns both ends of a connection, of which the first one is taken over.
func direct(t *testing.T, network string) (ours *socket, theirs net.Conn) {
	t.Helper()
	nc, theirs := servers.Pair(t, network)
	taken, err := DirectConn(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	ours, is := taken.(*socket)
	if !is {
		t.Fatalf("it is a %T", taken)
	}
	return ours, theirs
}

// Each lone message wakes the reader, also if it comes just when the reader begins to wait, or when a deadline or another goroutine ends the wait. A
// reader that misses one would wait for ever, because the next one comes only after its answer.
func TestNoWakeIsLost(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			ours, theirs := direct(t, network)
			const rounds = 30_000
			stuck := time.AfterFunc(time.Minute, func() { _ = theirs.Close() })
			defer stuck.Stop()
			go func() {
				var b [8]byte
				for n := range uint64(rounds) {
					binary.BigEndian.PutUint64(b[:], n)
					for spin := rand.IntN(200) * rand.IntN(20); spin > 0; spin-- { // meets each step of a wait
						_ = time.Now()
					}
					if _, err := theirs.Write(b[:]); err != nil {
						return
					}
					if _, err := io.ReadFull(theirs, b[:]); err != nil {
						return
					}
				}
			}()
			var b [8]byte
			late := 0
			for n := range uint64(rounds) {
				for got := 0; got < len(b); {
					if rand.IntN(4) == 0 {
						if err := ours.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(100)) * time.Microsecond)); err != nil {
							t.Fatal(err)
						}
					}
					more, err := ours.Read(b[got:])
					got += more
					switch {
					case errors.Is(err, os.ErrDeadlineExceeded):
						late++
						if err := ours.SetReadDeadline(time.Time{}); err != nil {
							t.Fatal(err)
						}
					case err != nil:
						t.Fatal(err)
					}
				}
				if at := binary.BigEndian.Uint64(b[:]); at != n {
					t.Fatalf("message %d came as number %d", at, n)
				}
				if _, err := ours.Write(b[:]); err != nil {
					t.Fatal(err)
				}
			}
			if late == 0 {
				t.Error("no deadline ended a wait")
			}
		})
	}
}

// A writer waits for room, until its deadline. The end of the stream ends a wait for reading.
func TestWaitForRoomAndEnd(t *testing.T) {
	t.Parallel()
	ours, theirs := direct(t, "tcp")
	if err := ours.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 64<<20)
	n, err := ours.Write(large)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d written: %v", n, err)
	}
	if err := ours.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, theirs, int64(n+len(large)))
		read <- errors.Join(err, theirs.Close())
	}()
	if _, err := ours.Write(large); err != nil {
		t.Error(err)
	}
	if _, err := ours.Read(large); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}
