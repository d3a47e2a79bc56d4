package lane

import "time"

// Retries holds lanes that wait in memory for their head's next attempt, soonest first.
type Retries struct{ Heap Heap[laneAt] }

type laneAt struct {
	at   time.Time
	Lane *Lane
}

// Before orders lanes by the times of their next attempts.
func (l laneAt) Before(other laneAt) bool { return l.at.Before(other.at) }

// Add lets a lane wait until a time.
func (r *Retries) Add(at time.Time, l *Lane) { r.Heap.Push(laneAt{at, l}) }

// Due hands over the lanes whose time has come.
func (r *Retries) Due(now time.Time, f func(*Lane)) {
	for r.Heap.Len() > 0 && !now.Before(r.Next()) {
		f(r.Heap.Pop().Lane)
	}
}

// Next is when the first of them is due; zero = there is none.
func (r *Retries) Next() time.Time {
	if r.Heap.Len() == 0 {
		return time.Time{}
	}
	return r.Heap.Items[0].at
}
