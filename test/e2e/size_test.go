//go:build !e2e

package e2e

// Plain go test runs a quick variant.
const (
	quick     = true
	quickRate = 3000 // messages a second
)

// killTrials is how often the relay is killed.
func killTrials(kind string) int {
	if kind == "postgres" {
		return 10
	}
	return 4
}

// A relay that polls is killed pollKills times or more, until pollRows rows were written, at pollRate a second.
const (
	pollRows, pollKills = 4000, 5
	pollRate            = 1500
)
