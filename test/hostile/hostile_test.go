package hostile

import (
	"testing"

	"github.com/tailbox/tailbox/test/e2e"
)

// TestHostile has hostile rows delivered to each kind of sink, kills the relay amid them, and wants all that the package comment lists.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, kind := range e2e.Kinds() {
		for _, sink := range sinks() {
			if sink != "http" && kind != "postgres" {
				continue // the long test has them
			}
			t.Run(kind+"-"+sink, func(t *testing.T) {
				t.Parallel()
				rounds(t, kind, sink, Plan{Many: 20, Mixed: 40, Huge: sink == "http" && (kind == "postgres" || kind == "mongodb")})
			})
		}
	}
}

// rounds is a round in peace, and one in which the relay is killed and restarted.
func rounds(t *testing.T, kind, sink string, plan Plan) {
	t.Helper()
	s := newStage(t, kind, "{attempts: 3, initial: 20ms, factor: 2, max: 1s}", newDestination(t, sink, false))
	s.write(plan)
	s.check()
	plan.Huge = false
	s.write(plan)
	s.kill()
	s.check()
	s.openTopics()
	s.stop()
	s.report()
}
