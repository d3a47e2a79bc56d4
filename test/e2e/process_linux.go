package e2e

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs ends a child when the test's process ends, however that comes.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// unacknowledged reports whether something that was written to a connection has not arrived.
func unacknowledged(fd uintptr) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return err == nil && n > 0
}
