package main

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"time"
)

// followLoad lets Go use one processor while there is little to do, and all of them otherwise. It returns when ctx ends. An operator's GOMAXPROCS
// stands as it is.
//
// If a goroutine becomes ready while a processor of Go has nothing to do, Go wakes a thread for it. A message passes through half a dozen goroutines, and
// each of them works for some microseconds, which is less than the waking takes: at 2,000 messages a second, a quarter of the processor time.
func followLoad(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	defer runtime.SetDefaultGOMAXPROCS()
	timer := time.NewTimer(loadEvery)
	defer timer.Stop()
	used, at, p := processorTime(), time.Now(), processors{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		total, now := processorTime(), time.Now()
		load := float64(total-used) / float64(now.Sub(at))
		used, at = total, now
		switch change := p.follow(load); {
		case !change:
		case p.one:
			runtime.GOMAXPROCS(1)
		default:
			runtime.SetDefaultGOMAXPROCS()
		}
		if p.one && load < restLoad {
			timer.Reset(loadAtRest)
		} else {
			timer.Reset(loadEvery)
		}
	}
}

const (
	// loadEvery is how often the load is looked at, and loadAtRest how often while it is less than restLoad: to be woken is most of the work then.
	loadEvery, loadAtRest = 200 * time.Millisecond, time.Second
	restLoad              = 0.05
	// A busy relay needs more than one processor. The load is a share of one processor. A drain of MongoDB is slower on one processor, and has a
	// load of 0.31; a steady trickle of 2,000 messages a second has at most 0.2.
	busyLoad = 0.3
	// A relay with less to do than that for calmLooks looks in a row has little to do.
	calmLoad  = 0.25
	calmLooks = 15
)

// processors says whether one processor has to do.
type processors struct {
	one  bool
	calm int // looks in a row with little to do
}

// follow takes the load since the last look, and reports whether one has changed.
func (p *processors) follow(load float64) (change bool) {
	if load >= calmLoad {
		p.calm = 0
	} else {
		p.calm++
	}
	one := p.one && load < busyLoad || p.calm >= calmLooks
	change, p.one = one != p.one, one
	return change
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0 // it is always known
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
