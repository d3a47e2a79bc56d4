package relay

import (
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// takeParks moves what the listed lanes have to park into a settlement, parkMost deliveries at most. Where there are more, as in
// the backlog of a sink that has gone out, those that came first in the log are parked first, over all lanes: lane by lane, what is
// settled would be scattered over the log, settled_above would reach its bound, and the gate would hold up the other sinks.
// Before all others come messages that cannot be routed, since nothing behind them may be parked before them.
func (e *engine) takeParks(s *settlement, now time.Time) {
	lanes := e.parkLanes
	e.parkLanes = nil
	var unroutable, routed []*lane
	for _, l := range lanes {
		if l.sink.sink == nil {
			unroutable = append(unroutable, l)
		} else {
			routed = append(routed, l)
		}
	}
	room := e.takeInOrder(s, unroutable, parkMost, now)
	e.takeInOrder(s, routed, room, now)
}

// takeInOrder parks of some lanes what came first in the log, and lists again the lanes of which nothing has found room. It returns
// the room that is left.
func (e *engine) takeInOrder(s *settlement, lanes []*lane, room int, now time.Time) int {
	var order heapOf[parkNext]
	for _, l := range lanes {
		switch {
		case room <= 0 || e.strays(l):
			e.parkLanes = append(e.parkLanes, l)
		case !e.parkableLane(l) || l.parking == nil && !l.polling && !e.closed(l): // its sink has come back meanwhile
			l.listed = false
			e.review(l)
			e.offer(l, now)
		default:
			order.push(parkNext{lane: l, at: l.parkAt(0).msg.Position})
		}
	}
	taken := make(map[*lane]int, order.len())
	var first []*lane // in the order of their first deliveries
	for order.len() > 0 {
		next := order.pop()
		l := next.lane
		if room <= 0 {
			if taken[l] == 0 {
				e.parkLanes = append(e.parkLanes, l)
			}
			continue
		}
		if taken[l] == 0 {
			first = append(first, l)
		}
		n := 1
		if l.parking != nil && l.parking.latest { // only the whole lane tells which is the newest
			n = l.toPark()
		}
		taken[l] += n
		room -= n
		if taken[l] < l.toPark() {
			order.push(parkNext{lane: l, at: l.parkAt(taken[l]).msg.Position})
		}
	}
	for _, l := range first {
		l.listed = false
		e.takePark(s, l, taken[l])
	}
	return room
}

// parkNext is the next delivery that a lane has to park.
type parkNext struct {
	lane *lane
	at   outbox.Position
}

func (p parkNext) Before(other parkNext) bool { return p.at.Compare(other.at) < 0 }

// toPark is how many deliveries the lane has to park, in the order of parkAt: its queue, unless those are the poller's, which the
// database has already, and then what has arrived behind it.
func (l *lane) toPark() int {
	if l.parking != nil && l.parking.only {
		return 1
	}
	return l.queueToPark() + l.arrivals.len()
}

func (l *lane) queueToPark() int {
	if l.parking == nil && l.polling {
		return 0
	}
	return l.queue.len()
}

// parkAt is the i-th delivery that the lane has to park.
func (l *lane) parkAt(i int) *delivery {
	if n := l.queueToPark(); i >= n {
		return l.arrivals.at(i - n)
	}
	return l.queue.at(i)
}
