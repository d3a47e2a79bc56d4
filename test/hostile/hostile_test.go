package hostile

import "testing"

// TestHostile has hostile rows delivered to each kind of sink, kills the relay amid them, and wants all that the package comment lists.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, sink := range sinks() {
		t.Run("postgres-"+sink, func(t *testing.T) {
			t.Parallel()
			rounds(t, &postgresTable{}, sink, Plan{Many: 20, Mixed: 40, Huge: sink == "http"})
		})
	}
}

// rounds is a round in peace, and one in which the relay is killed and restarted.
func rounds(t *testing.T, table table, sink string, plan Plan) {
	t.Helper()
	s := newStage(t, table, newDestination(t, sink))
	s.write(plan)
	s.check()
	s.write(plan)
	s.kill()
	s.check()
	s.openTopics()
	s.stop()
	s.report()
}
