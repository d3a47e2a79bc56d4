package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// besideQueue is what the process needs beside what `memory` bounds and as much again for buffers of sinks and what waits
	// to be collected.
	besideQueue = 4 << 20
	// heapEvery is how often the heap is looked at, and heapAtRest how often while less than restBytes a second are allocated: to be woken costs a relay
	// that has nothing to do more than the look.
	heapEvery, heapAtRest = time.Second, 5 * time.Second
	restBytes             = 1 << 20
	liveHeap              = "/gc/heap/live:bytes"
	allocated             = "/gc/heap/allocs:bytes"
	// To collect costs a tenth of the processor time if garbage may be only restPercent of what is alive, below the limit. So it may be more: busyPercent while more
	// than busyBytes a second are allocated, as by some 10,000 messages, and tricklePercent while there are fewer, because little is alive then. A relay at rest
	// stays small.
	busyBytes      = 16 << 20
	busyPercent    = 200
	tricklePercent = 400
	restPercent    = 100 // Go's own
	// Before the first look: a relay that starts usually reads what came while none ran.
	startPercent = 150
)

// boundHeap keeps the garbage collector from letting the heap grow to twice of what is alive: `memory` is meant as a bound
// on the process, and may change. An operator's GOMEMLIMIT and GOGC stand as they are. It returns when ctx ends.
func boundHeap(ctx context.Context, queue *atomic.Int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := 2*queue.Load() + besideQueue
	debug.SetMemoryLimit(limit)
	pause := heapEvery
	timer := time.NewTimer(pause)
	defer timer.Stop()
	sample := []metrics.Sample{{Name: liveHeap}, {Name: allocated}}
	metrics.Read(sample)
	before, set, percent, fixed := sample[1].Value.Uint64(), limit, startPercent, os.Getenv("GOGC") != ""
	if !fixed {
		debug.SetGCPercent(percent)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		metrics.Read(sample)
		if want := heapLimit(2*queue.Load()+besideQueue, int64(sample[0].Value.Uint64())); want != set {
			set = want
			debug.SetMemoryLimit(set)
		}
		now := sample[1].Value.Uint64()
		rate := (now - before) / uint64(pause/time.Second)
		if want := garbagePercent(rate); want != percent && !fixed {
			percent = want
			debug.SetGCPercent(percent)
		}
		next := heapEvery
		if rate < restBytes {
			next = heapAtRest
			if pause != next {
				debug.FreeOSMemory() // what the start or a burst has left: it would stay until more of it comes
			}
		}
		before, pause = now, next
		timer.Reset(pause)
	}
}

// heapLimit is the limit for a heap of which so much is alive. If that is near the usual limit, because millions of groups wait in the database,
// say, a limit that cannot be held would only burn processor time.
func heapLimit(usual, live int64) int64 { return max(usual, live+live/3) }

// garbagePercent is GOGC while so many bytes a second are allocated.
func garbagePercent(bytes uint64) int {
	switch {
	case bytes > busyBytes:
		return busyPercent
	case bytes >= restBytes:
		return tricklePercent
	}
	return restPercent
}
