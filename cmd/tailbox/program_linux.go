package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startOver is how long after the start of a relay what only the start needs has been done, the first observation of the database included.
const startOver = observeEvery + 5*time.Second

// forgetStart returns a task that gives back the pages of the program that the start alone has touched (reading the configuration, preparing the database): a third of
// what a relay at rest would hold. What runs later is mapped again from the file, which the kernel still has in its cache. It does so when
// the relay begins to read, since a backlog needs memory at once, and again when all is done that a start does beside it.
func forgetStart(reads <-chan struct{}) func(context.Context) {
	return func(ctx context.Context) {
		over := time.After(startOver)
		for range 2 {
			select {
			case <-ctx.Done():
				return
			case <-reads:
				reads = nil
			case <-over:
			}
			forgetProgram()
		}
	}
}

// forgetProgram unmaps the pages of the program's file that cannot be written to, so that nothing is lost. It is a saving, so an error changes nothing.
func forgetProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// 00400000-01a2b000 r-xp 00000000 fe:00 1234 /usr/bin/tailbox
		var begin, end uintptr
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &begin, &end, &mode); err != nil || !strings.HasSuffix(lines.Text(), " "+program) {
			continue
		}
		if !strings.Contains(mode, "w") && strings.HasSuffix(mode, "p") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED)
		}
	}
}
