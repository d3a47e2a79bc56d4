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

// A relay that polls is killed pollKills times or more, until pollRows rows were written, at pollRate a second.
const (
	pollRows, pollKills = 100000, 30
	pollRate            = 4000
)
