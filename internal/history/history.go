// Package history keeps what a relay did in the last hour in memory, as the points of a chart.
package history

import (
	"context"
	"sync"
	"time"
)

const (
	// Every is the time between two points, and most how many are kept: those of an hour.
	Every = 5 * time.Second
	most  = int(time.Hour / Every)
)

// A Point is what happened in the interval that ends At, and how far delivery was behind then. It is of this process alone.
type Point struct {
	At time.Time `json:"at"`
	// Received are messages read from the log. Delivered and Failed are deliveries that their sink acknowledged or answered with an error, and Dead those
	// given up.
	Received  int `json:"received"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Dead      int `json:"dead"`
	// LagSeconds is the age of the commit that was read last, and UndeliveredSeconds that of the oldest message that a sink has not taken and that is
	// not dead; 0 if there is none.
	LagSeconds         float64 `json:"lag_seconds"`
	UndeliveredSeconds float64 `json:"undelivered_seconds"`
}

// A History keeps the points of the last hour. It is safe for concurrent use.
type History struct {
	totals func() Point
	mu     sync.Mutex
	before Point // the totals at the last point
	points []Point
}

// New returns a history without points. totals returns a point whose counts are those since the process started.
func New(totals func() Point) *History { return &History{totals: totals, before: totals()} }

// Run adds points until ctx ends.
func (h *History) Run(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.add(now, h.totals())
		}
	}
}

// add makes a point of the totals at a moment.
func (h *History) add(now time.Time, total Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := total
	p.At = now
	p.Received -= h.before.Received
	p.Delivered -= h.before.Delivered
	p.Failed -= h.before.Failed
	p.Dead -= h.before.Dead
	h.before = total
	if len(h.points) == most {
		copy(h.points, h.points[1:])
		h.points = h.points[:most-1]
	}
	h.points = append(h.points, p)
}

// Since returns the points after a moment, the oldest first.
func (h *History) Since(t time.Time) []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := len(h.points)
	for first > 0 && h.points[first-1].At.After(t) {
		first--
	}
	return append([]Point{}, h.points[first:]...)
}
