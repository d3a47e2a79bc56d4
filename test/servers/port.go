package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are taken from below the range that Linux gives to outgoing
// connections (32768 and up). A server that is down for a moment must find its
// port free when it comes back, and a client that dials a dead port of that
// range may even connect to itself.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePort returns a loopback TCP port that nobody listens on. Another process
// may take it before we do, so callers start again with another on failure.
func freePort() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, errors.New("find free port: none of 200 tried between 20000 and 32000 was free")
}

// freePorts returns n different ones.
func freePorts(n int) ([]int, error) {
	var ports []int
	for len(ports) < n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
