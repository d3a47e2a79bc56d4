//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"os"
	"syscall"
)

// lock takes the file's advisory lock, which ends with the file.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
