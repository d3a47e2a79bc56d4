package relay

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
)

// takeParks moves what the listed lanes have to park into a settlement, parkMost deliveries at most. First come messages that cannot be routed, since
// nothing behind them may be parked before them. Then come the others in log order over all lanes. If they were parked lane by lane, settled
// deliveries would be scattered over the log: settled_above would reach its bound, and the gate would hold up the other sinks.
func (pk *parker) takeParks(s *settlement) {
	lanes := pk.lanes
	pk.lanes = nil
	var unroutable, routed []*lane.Lane
	for _, l := range lanes {
		if l.Sink.Sink == nil {
			unroutable = append(unroutable, l)
		} else {
			routed = append(routed, l)
		}
	}
	room := pk.takeInOrder(s, unroutable, parkMost)
	pk.takeInOrder(s, routed, room)
}

// takeInOrder parks at most room deliveries of these lanes, in log order over all of them. A lane that it could not begin stays listed. It returns
// the room that is left.
func (pk *parker) takeInOrder(s *settlement, lanes []*lane.Lane, room int) int {
	var order lane.Heap[parkNext]
	for _, l := range lanes {
		switch {
		case room <= 0 || pk.unroutableUnparked(l):
			pk.lanes = append(pk.lanes, l)
		case !pk.parkableLane(l) || !l.Is(lane.Parking) && !pk.e.closed(l): // its sink has come back meanwhile
			l.On(lane.EvUnlist)
			pk.e.touch(l)
		default:
			order.Push(parkNext{lane: l, at: l.ParkAt(0).Msg.Position})
		}
	}
	taken := make(map[*lane.Lane]int, order.Len())
	var first []*lane.Lane // in the order of their first deliveries
	for order.Len() > 0 {
		next := order.Pop()
		l := next.lane
		if room <= 0 {
			if taken[l] == 0 {
				pk.lanes = append(pk.lanes, l)
			}
			continue
		}
		if taken[l] == 0 {
			first = append(first, l)
		}
		n := 1
		if l.Is(lane.Parking) && l.Failure.Latest { // only the whole lane tells which is the newest
			n = l.ToPark()
		}
		taken[l] += n
		room -= n
		if taken[l] < l.ToPark() {
			order.Push(parkNext{lane: l, at: l.ParkAt(taken[l]).Msg.Position})
		}
	}
	for _, l := range first {
		pk.takePark(s, l, taken[l])
	}
	return room
}

// parkNext is the next delivery that a lane has to park.
type parkNext struct {
	lane *lane.Lane
	at   outbox.Position
}

func (p parkNext) Before(other parkNext) bool { return p.at.Compare(other.at) < 0 }
