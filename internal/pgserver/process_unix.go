//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// noFollow has a link refused when a file is opened.
const noFollow = syscall.O_NOFOLLOW

// unprivileged is the user and group that a server runs as when we are root.
const unprivileged = 65534

// demote makes a program run as the unprivileged user when we are root, and in a process group of its own: an interrupt
// typed at us is not meant for it.
func demote(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
}

// detach puts a program into a session of its own: no signal that is sent to us reaches it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// own gives a folder to the user that a server runs as.
func own(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
		return fmt.Errorf("give the folder to the user of Postgres: %w", err)
	}
	return nil
}

// quit asks Postgres for an immediate shutdown: there is nothing to keep.
func quit(p *os.Process) error {
	if err := p.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	return nil
}
