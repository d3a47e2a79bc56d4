//go:build !e2e

package e2e

// Plain go test runs a quick variant.
const (
	killTrials = 10
	quickRate  = 3000 // messages a second
)
