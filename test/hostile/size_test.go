//go:build !e2e

package hostile

import "time"

// Plain go test tells about so many lies of each kind of server, for so long.
const (
	shortLies = 4
	lieFor    = time.Second
)
