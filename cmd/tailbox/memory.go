package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// besideQueue is what the process needs beside what `memory` bounds and as much again for buffers of sinks and what waits
	// to be collected.
	besideQueue = 8 << 20
	// heapEvery is how often the limit is compared with what is alive.
	heapEvery = time.Second
	liveHeap  = "/gc/heap/live:bytes"
)

// boundHeap keeps the garbage collector from letting the heap grow to twice of what is alive: `memory` is meant as a bound
// on the process. An operator's GOMEMLIMIT stands as it is. It returns when ctx ends.
func boundHeap(ctx context.Context, queue int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := 2*queue + besideQueue
	debug.SetMemoryLimit(limit)
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	sample := []metrics.Sample{{Name: liveHeap}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		debug.SetMemoryLimit(heapLimit(limit, int64(sample[0].Value.Uint64())))
	}
}

// heapLimit is the limit for a heap of which so much is alive. Where that is near the usual limit, because millions of
// groups wait in the database, say, a limit that cannot be held would only burn processor time.
func heapLimit(usual, live int64) int64 { return max(usual, live+live/3) }
