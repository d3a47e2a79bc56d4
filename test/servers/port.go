package servers

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Ports are taken from below the range that Linux gives to outgoing
// connections (32768 and up). A server that is down for a moment must find its
// port free when it comes back, and a client that dials a dead port of that
// range may even connect to itself.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePort returns a loopback TCP port that nobody listens on, and reserves it
// for as long as this process lives: it is given to no other test of this
// machine, even while its server is down. Others than tests do not know of the
// reservation, so callers start again with another port on failure.
func freePort() (int, error) {
	for range 500 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if reserve(port) && nobodyListens(port) {
			return port, nil
		}
	}
	return 0, errors.New("find free port: none of 500 tried between 20000 and 32000 was free")
}

// nobodyListens dials a port. To listen on it would be the stricter test, but a process that this one starts at that moment has a copy of the socket
// until it runs its program, and the port would still be taken for the caller.
func nobodyListens(port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// FreeAddr is a loopback address of a port that nobody listens on, and that is reserved as those of servers are.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// ListenAgain listens on an address on which this process has just stopped to listen. A process that is being started at that moment has a copy of the
// old socket until it runs its program.
func ListenAgain(addr string) (net.Listener, error) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return l, err
		}
		time.Sleep(time.Millisecond)
	}
}

// reserve takes the lock of a port's file. The descriptor is left open on
// purpose: the kernel gives the lock back when the process ends, however it
// does. A file that we may not open belongs to another user's tests.
func reserve(port int) bool {
	dir := filepath.Join(os.TempDir(), "tailbox-ports")
	if err := os.Mkdir(dir, 0o777); err == nil {
		_ = os.Chmod(dir, 0o777|os.ModeSticky) // as /tmp: the umask took rights away
	}
	fd, err := syscall.Open(filepath.Join(dir, strconv.Itoa(port)), syscall.O_RDONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return false
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}

// freePorts returns n different ones.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
