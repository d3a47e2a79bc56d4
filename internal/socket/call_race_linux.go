//go:build race

package socket

import (
	"errors"
	"syscall"
)

// The race detector learns from these calls that what one side did before its write happens before what the other side does after its read.

func read(fd uintptr, b []byte) (int, error) { return call(syscall.Read, fd, b) }

func write(fd uintptr, b []byte) (int, error) { return call(syscall.Write, fd, b) }

func call(do func(int, []byte) (int, error), fd uintptr, b []byte) (int, error) {
	n, err := do(int(fd), b)
	for errors.Is(err, syscall.EINTR) {
		n, err = do(int(fd), b)
	}
	return max(n, 0), err
}
