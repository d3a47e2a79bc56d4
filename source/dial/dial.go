// Package dial opens the network connections of sources. A server that is gone, and whose machine does not say so, is given up in bounded time.
package dial

import (
	"net"
	"time"
)

// peerTimeout is when this side gives up a server that does not even acknowledge what is sent.
const peerTimeout = 30 * time.Second

// Dialer returns a dialer that gives a server so long to accept; 0 sets no bound.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         control,
	}
}
