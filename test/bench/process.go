package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// What processes say on stderr: both kinds when the server has begun to send its log, bare readers when they have read it.
const (
	sayReading = "reading the log"
	sayDone    = "read all of it"
)

var errEndedEarly = errors.New("it ended early")

// A process is one that runs.
type process struct {
	cmd *exec.Cmd
	// reading and done get the time at which the process said so, once.
	reading, done chan time.Time
	exited        chan struct{}
	end           error
}

// launch starts a process with its messages in a file, and its output to a writer.
func launch(cmd *exec.Cmd, log string, out func(io.Reader)) (*process, error) {
	p := &process{cmd: cmd, reading: make(chan time.Time, 1), done: make(chan time.Time, 1), exited: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	messages, err := cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	var output io.Reader
	if out != nil {
		if output, err = cmd.StdoutPipe(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	copied := make(chan struct{})
	if out == nil {
		close(copied)
	} else {
		go func() {
			defer close(copied)
			out(output)
		}()
	}
	go func() {
		err := p.listen(messages, file)
		<-copied
		p.end = errors.Join(cmd.Wait(), err, file.Close())
		close(p.exited)
	}()
	return p, nil
}

// listen copies what a process says to a file.
func (p *process) listen(messages io.Reader, file *os.File) error {
	lines := bufio.NewReader(messages)
	for {
		line, err := lines.ReadString('\n')
		now := time.Now()
		for what, to := range map[string]chan time.Time{sayReading: p.reading, sayDone: p.done} {
			if strings.Contains(line, what) {
				select {
				case to <- now:
				default: // it said so before
				}
			}
		}
		if _, werr := file.WriteString(line); werr != nil {
			return werr
		}
		if err != nil {
			return nil // it ended
		}
	}
}

// wait waits for a process to say something.
func (p *process) wait(ctx context.Context, what <-chan time.Time) (time.Time, error) {
	select {
	case at := <-what:
		return at, nil
	case <-p.exited:
		return time.Time{}, errEndedEarly
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// stop ends the process softly and waits.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		err := errors.Join(errors.New("it does not stop"), p.cmd.Process.Kill())
		<-p.exited
		return err
	}
	if p.end != nil {
		return fmt.Errorf("stop: %w", p.end)
	}
	return nil
}
