package relay

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/sink/discard"
)

// A message that must not be sent is known by its row, whatever it is parked for: another start sends what waits.
func TestDoomedIsParkedAsSuch(t *testing.T) {
	t.Parallel()
	l := lane.NewLane(lane.NewSink("out", 1, &discard.Sink{}, 1<<20), "g")
	for _, class := range []string{"", "misconfigured"} {
		d := &lane.Delivery{Msg: &lane.Message{Message: &outbox.Message{}}, Lane: l, Unsendable: &lane.Failure{Class: "crash", Err: "it ended relays"}}
		d.Message = d.Msg.Message
		var s settlement
		e := &engine{}
		e.parker.e, e.settler.e = e, e
		e.parker.addPark(&s, l, d, parkedAs(l, &lane.Failure{Class: class, Err: class}, 0, 1, true), time.Now())
		if p := s.Park[0]; p.State != checkpoint.StateWaiting || p.ErrorClass != "crash" || p.LastError != "it ended relays" {
			t.Errorf("parked for %q: state %s, class %q, error %q, want waiting, with its crash", class, p.State, p.ErrorClass, p.LastError)
		}
	}
}
