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
			if quick && sink != "http" && kind != "postgres" {
				continue
			}
			t.Run(kind+"-"+sink, func(t *testing.T) {
				if quick {
					t.Parallel()
				}
				s := newStage(t, kind, "{attempts: 3, initial: 20ms, factor: 2, max: 1s}", newDestination(t, sink, false))
				s.write(Plan{Many: many, Mixed: mixed, Huge: !quick || sink == "http"}, false)
				s.check()
				s.write(Plan{Mixed: mixed, Huge: !quick}, true)
				s.check()
				s.checkText()
				s.openTopics()
				s.stop()
				s.report()
			})
		}
	}
}
