package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A Relay is one life of `tailbox run`.
type Relay struct {
	tb     testing.TB
	cmd    *exec.Cmd
	log    string
	logged int64         // how long the log was at its start
	exited chan struct{} // closed when it was reaped
	err    error         // how it ended; valid once exited is closed
}

// Start starts `tailbox run`. Its standard output goes to stdout, which is read to its end before Wait returns; nil
// discards it. Its log goes to a file that is shown if the test fails.
func (b *Bed) Start(stdout func(io.Reader)) *Relay {
	b.tb.Helper()
	return b.StartWith(b.ConfigFile, b.LogFile, stdout)
}

// StartWith is Start with another configuration and log file.
func (b *Bed) StartWith(config, log string, stdout func(io.Reader)) *Relay {
	b.tb.Helper()
	return b.startBinary(Binary(b.tb), config, log, stdout)
}

// startBinary is StartWith for another binary.
func (b *Bed) startBinary(binary, config, log string, stdout func(io.Reader)) *Relay {
	b.tb.Helper()
	logFile, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer logFile.Close()
	state, err := logFile.Stat()
	if err != nil {
		b.tb.Fatal(err)
	}
	r := &Relay{tb: b.tb, log: log, logged: state.Size(), exited: make(chan struct{})}
	r.cmd = exec.Command(binary, "run", "-c", config)
	r.cmd.Stderr = logFile
	r.cmd.SysProcAttr = dieWithUs()
	read := func() {}
	var ours, theirs *os.File
	if stdout != nil {
		if ours, theirs, err = os.Pipe(); err != nil {
			b.tb.Fatal(err)
		}
		r.cmd.Stdout = theirs
		read = func() {
			stdout(ours)
			_ = ours.Close() // only read from
		}
	}
	err = r.cmd.Start()
	if theirs != nil {
		_ = theirs.Close() // the child has its own
	}
	if err != nil {
		b.tb.Fatalf("start tailbox: %v", err)
	}
	go func() {
		read()
		r.err = r.cmd.Wait()
		close(r.exited)
	}()
	b.relays = append(b.relays, r)
	return r
}

// Pid is its process id.
func (r *Relay) Pid() int { return r.cmd.Process.Pid }

// Kill ends it with SIGKILL, and waits until it is gone and all that it wrote was read.
func (r *Relay) Kill() {
	r.tb.Helper()
	r.Signal(syscall.SIGKILL)
	<-r.exited
}

// Signal sends a signal; a process that has ended is left alone.
func (r *Relay) Signal(sig syscall.Signal) {
	r.tb.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.tb.Fatalf("signal tailbox: %v", err)
	}
}

// Stop asks it to stop softly, once it runs, and wants exit code 0 within a minute.
func (r *Relay) Stop() {
	r.tb.Helper()
	for deadline := time.Now().Add(time.Minute); r.Running() && time.Now().Before(deadline); Pause(10 * time.Millisecond) {
		if state, err := os.Stat(r.log); err == nil && state.Size() > r.logged {
			break // it has said that it starts, and knows what to do with a signal
		}
	}
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(time.Minute); code != 0 {
		r.tb.Errorf("tailbox run: exit code %d after SIGTERM, want 0\n%s", code, Tail(r.log, 20))
	}
}

// Wait waits for its end and returns the exit code, -1 for a signal.
func (r *Relay) Wait(most time.Duration) int {
	r.tb.Helper()
	select {
	case <-r.exited:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(most):
		r.Signal(syscall.SIGQUIT) // it shows its goroutines
		select {
		case <-r.exited:
		case <-time.After(5 * time.Second):
			r.Kill()
		}
		r.tb.Fatalf("tailbox run did not end within %v\n%s", most, Tail(r.log, 200))
		return 0
	}
}

// Running reports whether it has not ended.
func (r *Relay) Running() bool {
	select {
	case <-r.exited:
		return false
	default:
		return true
	}
}

// Usage is what a process has used.
type Usage struct {
	RSS, PeakRSS int64         // bytes
	CPU          time.Duration // user and system
}

// Usage reads its memory and processor time from /proc.
func (r *Relay) Usage() (Usage, error) {
	u, err := ReadUsage(r.Pid())
	if err != nil {
		return u, fmt.Errorf("read usage of tailbox: %w", err)
	}
	return u, nil
}

// Tail returns the last lines of a file.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	at := len(text)
	for at > 0 && lines >= 0 {
		at--
		if text[at] == '\n' {
			lines--
		}
	}
	if at > 0 {
		at++
	}
	return fmt.Sprintf("--- end of %s\n%s", filepath.Base(path), text[at:])
}
