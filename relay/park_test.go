package relay

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink/discard"
)

// A message that must not be sent is known by its row, whatever it is parked for: another start sends what waits.
func TestDoomedIsParkedAsSuch(t *testing.T) {
	t.Parallel()
	l := &lane{sink: newSinkState("out", 1, &discard.Sink{}, 1<<20), group: "g"}
	for _, class := range []string{"", "misconfigured"} {
		d := &delivery{msg: &message{Message: &outbox.Message{}}, lane: l, doomed: &failure{class: "crash", err: "it ended relays"}}
		d.Message = d.msg.Message
		var s settlement
		new(engine).addPark(&s, l, d, parkedAs(l, &failure{class: class, err: class}, 0, 1, true), time.Now())
		if p := s.Park[0]; p.State != checkpoint.StateWaiting || p.ErrorClass != "crash" || p.LastError != "it ended relays" {
			t.Errorf("parked for %q: state %s, class %q, error %q, want waiting, with its crash", class, p.State, p.ErrorClass, p.LastError)
		}
	}
}
