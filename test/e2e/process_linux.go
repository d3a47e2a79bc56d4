package e2e

import "syscall"

// dieWithUs ends a child when the test's process ends, however that comes.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
