//go:build !e2e

package hostile

import "time"

// Plain go test runs a quick variant.
const (
	quick       = true
	many, mixed = 20, 40      // rows of a round
	decided     = time.Minute // in which every hostile row ends
	shortLies   = 4           // about so many lies of each kind of server
	lieFor      = time.Second // how long each lasts
)
