//go:build e2e

package e2e

// What the acceptance asks for.
const (
	killTrials = 100
	quickRate  = 4000 // messages a second
)
