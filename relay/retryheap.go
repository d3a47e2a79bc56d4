package relay

import (
	"container/heap"
	"time"
)

// retryHeap holds lanes that wait in memory for their head's next attempt, soonest first.
type retryHeap struct{ h laneHeap }

type laneHeap []laneAt

type laneAt struct {
	at   time.Time
	lane *lane
}

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laneHeap) Push(x any)        { *h = append(*h, x.(laneAt)) }
func (h *laneHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (r *retryHeap) add(at time.Time, l *lane) { heap.Push(&r.h, laneAt{at, l}) }

// due hands over the lanes whose time has come.
func (r *retryHeap) due(now time.Time, f func(*lane)) {
	for len(r.h) > 0 && !now.Before(r.h[0].at) {
		f(heap.Pop(&r.h).(laneAt).lane)
	}
}

func (r *retryHeap) next() time.Time {
	if len(r.h) == 0 {
		return time.Time{}
	}
	return r.h[0].at
}
