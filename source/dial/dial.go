// Package dial opens the network connections of sources. A server that is gone, and whose machine does not say so, is given up in bounded time.
package dial

import (
	"context"
	"net"
	"time"

	"github.com/tailbox/tailbox/internal/socket"
)

// peerTimeout is when this side gives up a server that does not even acknowledge what is sent.
const peerTimeout = 30 * time.Second

// Within returns a function that connects. It gives a server so long to accept; 0 sets no bound.
func Within(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         control,
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return socket.Quiet(conn), nil
	}
}
