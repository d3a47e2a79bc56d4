//go:build e2e

package e2e

// What the acceptance asks for.
const (
	quick     = false
	quickRate = 4000 // messages a second
)

// killTrials is how often the relay is killed.
func killTrials(kind string) int {
	if kind == "postgres" {
		return 100
	}
	return 50
}
