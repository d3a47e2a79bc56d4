//go:build e2e

package hostile

import "time"

// The long test has 20,000 hostile rows of each database for each kind of sink, at least, and tells every lie.
const (
	quick       = false
	many, mixed = 10_000, 6_000
	decided     = 10 * time.Minute
	shortLies   = 1000
	lieFor      = 4 * time.Second
)
