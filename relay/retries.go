package relay

import "time"

// retries holds lanes that wait in memory for their head's next attempt, soonest first.
type retries struct{ heap heapOf[laneAt] }

type laneAt struct {
	at   time.Time
	lane *lane
}

func (l laneAt) Before(other laneAt) bool { return l.at.Before(other.at) }

func (r *retries) add(at time.Time, l *lane) { r.heap.push(laneAt{at, l}) }

// due hands over the lanes whose time has come.
func (r *retries) due(now time.Time, f func(*lane)) {
	for r.heap.len() > 0 && !now.Before(r.next()) {
		f(r.heap.pop().lane)
	}
}

// next is when the first of them is due; zero = there is none.
func (r *retries) next() time.Time {
	if r.heap.len() == 0 {
		return time.Time{}
	}
	return r.heap.items[0].at
}
