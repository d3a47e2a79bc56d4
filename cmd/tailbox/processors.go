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
	used, at, p := processorTime(), time.Now(), processors{}
	timer := time.NewTimer(p.lookIn())
	defer timer.Stop()
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
		timer.Reset(p.lookIn())
	}
}

const (
	// With one processor the load is looked at every loadEvery, and if it is less than restLoad every loadAtRest: to be woken is most of the work then.
	loadEvery, loadAtRest = 500 * time.Millisecond, time.Second
	restLoad              = 0.05
	// With all of them it is looked at every calmEvery. Each look sees the mean since the last one, so a single burst does not hide that there is little to do.
	calmEvery = 3 * time.Second
	// A relay with a load below calmLoad has little to do, and one with busyLoad has more to do than one processor should. The load is a share of one
	// processor. A drain of MongoDB is slower on one processor, and has a load of 0.31; a steady trickle of 2,000 messages a second has 0.15 on one, and
	// 0.22 on two.
	calmLoad, busyLoad = 0.25, 0.3
)

// processors says whether one processor has to do.
type processors struct {
	one  bool
	load float64 // at the last look
}

// follow takes the load since the last look, and reports whether one has changed.
func (p *processors) follow(load float64) (change bool) {
	limit := calmLoad
	if p.one {
		limit = busyLoad
	}
	one := load < limit
	change, p.one, p.load = one != p.one, one, load
	return change
}

// lookIn is when to look next.
func (p *processors) lookIn() time.Duration {
	switch {
	case !p.one:
		return calmEvery
	case p.load < restLoad:
		return loadAtRest
	}
	return loadEvery
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0 // it is always known
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
