//go:build e2e

package hostile

import "time"

// The long test tells all of them.
const (
	shortLies = 1000
	lieFor    = 4 * time.Second
)
