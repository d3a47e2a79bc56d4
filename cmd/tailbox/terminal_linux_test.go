package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openTerminal makes a terminal: what is started with the one file belongs to it, and closing the other hangs it up.
func openTerminal(t testing.TB) (terminal, line *os.File) {
	t.Helper()
	line, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { _ = line.Close() }) // it may have hung up
	control := func(request uintptr, value *int32) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, line.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	var number, locked int32
	control(syscall.TIOCSPTLCK, &locked)
	control(syscall.TIOCGPTN, &number)
	terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return terminal, line
}

// onTerminal starts the program with a terminal of its own, which hangUp hangs up.
func (r *rig) onTerminal(args ...string) (p *process, hangUp func()) {
	r.t.Helper()
	terminal, line := openTerminal(r.t)
	cmd := exec.Command(os.Args[0], append(args, "-c", r.file)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p = startCommand(r.t, cmd, terminal, r.environment())
	if err := terminal.Close(); err != nil {
		r.t.Fatal(err)
	}
	return p, func() {
		if err := line.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A terminal that is closed ends what runs on it, softly.
func TestTerminalHangsUp(t *testing.T) {
	t.Parallel()
	needHangup(t)
	r, e := newEndpointRig(t)
	p, hangUp := r.onTerminal("run")
	r.send("a1", "a:1", `{}`)
	until(t, "a1", func() bool { return e.got() == "a1" })
	hangUp()
	if code := p.ends(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, p.printed())
	}
	if n := len(r.outbox()); n != 0 {
		t.Errorf("%d rows are left: what was delivered was not settled", n)
	}
}

// TestHangupIsNoSecondSignal: a terminal that is closed is told of by the kernel and by the shell, whenever each comes to it.
func TestHangupIsNoSecondSignal(t *testing.T) {
	t.Parallel()
	needHangup(t)
	r, arrived, release := newHangingRig(t)
	p, _ := r.onTerminal("run")
	r.send("a1", "a:1", `{}`)
	<-arrived
	p.signal(syscall.SIGHUP)
	until(t, "the soft stop", func() bool { return strings.Contains(p.printed(), "msg=stopping") })
	first := time.Now()
	until(t, "more signals", func() bool {
		p.signal(syscall.SIGHUP)
		return time.Since(first) > 2*oneSignal
	})
	release()
	if code := p.ends(); code != exitDone || strings.Contains(p.printed(), "at once") || len(r.outbox()) != 0 {
		t.Errorf("exit code %d, %d rows are left\n%s", code, len(r.outbox()), p.printed())
	}
}
