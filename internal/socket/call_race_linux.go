//go:build race

package socket

import "syscall"

// The race detector learns from these calls that what one side did before its write happens before what the other side does after its read.

func read(fd uintptr, b []byte) (int, error) {
	n, err := syscall.Read(int(fd), b)
	return max(n, 0), err
}

func write(fd uintptr, b []byte) (int, error) {
	n, err := syscall.Write(int(fd), b)
	return max(n, 0), err
}
